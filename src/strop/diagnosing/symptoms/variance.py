"""Vanishing variance (arXiv 2504.02827): what a head gives loses its variance as inputs grow.

A flatter average of more values is nearer to their mean. For the output o = Σ p·v of a row, with d features:

    variance = Σ (o_i − mean o)² / d

the paper's variance over the features, one head at a time. It falls like 1/n where weights are even.
"""

from __future__ import annotations

from torch import Tensor

from strop.diagnosing.symptoms.symptom import Rows, RowSymptom
from strop.sharpness import upcast


class OutputVariance(RowSymptom):
    """Variance of a head's output over its features."""

    name = "variance"
    title = "variance of outputs"
    paper = "On Vanishing Variance in Transformer Length Generalization (arXiv 2504.02827)"
    sentence = "Variance of a head's output over its features; later layers were trained on that of short inputs."

    def measure(self, rows: Rows) -> Tensor:
        """From the weights and the values."""
        return give_outputs(rows).var(-1, correction=0)


def give_outputs(rows: Rows) -> Tensor:
    """Return what the heads give at the rows, [q, heads, r, d_v]."""
    value = upcast(rows.request.value)
    groups = rows.weights.unflatten(1, (value.shape[1], -1)).flatten(2, 3)
    given: Tensor = (groups @ value).unflatten(2, (-1, rows.logits.shape[2]))
    return given.flatten(1, 2)


symptoms = (OutputVariance(),)
