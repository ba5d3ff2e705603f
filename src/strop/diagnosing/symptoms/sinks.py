"""Sinks: weight that rests where nothing is read.

first      p on the first token that a row sees (arXiv 2309.17453)
repeated   Σ p over tokens that are the same as the one before them, which models mistake for a first token
           (arXiv 2503.08908)
"""

from __future__ import annotations

import torch
from torch import Tensor

from strop.diagnosing.symptoms.symptom import Rows, RowSymptom


class FirstToken(RowSymptom):
    """Weight on the first token."""

    name = "sink_first"
    title = "first token"
    paper = "Efficient Streaming Language Models with Attention Sinks (arXiv 2309.17453)"
    sentence = "Weight on the first token, where a head rests that has nothing to read."
    share = True

    def measure(self, rows: Rows) -> Tensor:
        """As it was weighed."""
        return rows.weighed.first_weight


class RepeatedTokens(RowSymptom):
    """Weight on tokens that repeat the one before."""

    name = "sink_repeated"
    title = "repeated tokens"
    paper = "Interpreting the Repeated Token Phenomenon in Large Language Models (arXiv 2503.08908)"
    sentence = "Weight on tokens that are the same as the one before them, which can become sinks too."
    share = True

    def measure(self, rows: Rows) -> Tensor:
        """Sum the weights of such keys."""
        tokens = rows.tokens
        same = torch.zeros_like(tokens, dtype=torch.bool)
        same[:, 1:] = tokens[:, 1:] == tokens[:, :-1]
        return (rows.weights * same[:, None, None]).sum(-1)


symptoms = (FirstToken(), RepeatedTokens())
