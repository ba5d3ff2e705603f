"""Adaptive temperature at some rows alone, to see which of them a model trained with softmax needs as they are.

prompt   rows of the question, but for its last token
first    rows that answer with a token that begins a value
later    rows that answer with a later digit
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from strop._types import Rows
from strop.normalisers import AdaptiveTemperature, Temperature
from strop.sharpness import RowStats
from strop.studies.clrs.batches import QuestionBatch

PLACED = "adaptive@"
"""What such a rule's name begins with; then comes which rows."""


@dataclass
class RowChoice:
    """Which rows of the batch at hand are sharpened: one choice for all layers."""

    which: str
    rows: Tensor = field(default_factory=lambda: torch.ones(1, 1, dtype=torch.bool))

    def look_at(self, batch: QuestionBatch) -> None:
        """Choose the rows of a batch."""
        if self.which == "prompt":
            self.rows = ~batch.asked
        else:
            self.rows = batch.asked & ((batch.places == 0) == (self.which == "first"))


class PlacedTemperature(Temperature):
    """β as published in the chosen rows, 1 in the others."""

    def __init__(self, choice: RowChoice) -> None:
        super().__init__()
        self.choice, self.rule = choice, AdaptiveTemperature()

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """β of every row [count, heads, T]."""
        return torch.where(self.choice.rows[:, None], self.rule.inverse_temperature(stats), 1.0)
