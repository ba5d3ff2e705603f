"""Reference attention (arXiv 2503.01909): is the weight where a right solution would put it?

Tasks with known evidence say which tokens an answer must be read from. The number is Σ p over them, as in weighing.py.
"""

from __future__ import annotations

from torch import Tensor

from strop.diagnosing.symptoms.symptom import Rows, RowSymptom


class ReferenceAttention(RowSymptom):
    """Weight on the evidence."""

    name = "reference"
    title = "reference attention"
    paper = "Attend or Perish: Benchmarking Attention in Algorithmic Reasoning (arXiv 2503.01909)"
    sentence = "Weight on the tokens that the answer must be read from."
    share = True

    def measure(self, rows: Rows) -> Tensor:
        """As it was weighed."""
        return rows.weighed.weight


symptoms = (ReferenceAttention(),)
