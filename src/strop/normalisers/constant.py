"""Softmax with a constant inverse temperature: weights = softmax(β·logits), β = 1/θ."""

from __future__ import annotations

from strop._checks import require_number
from strop._types import Rows
from strop.normalisers.base import Temperature
from strop.sharpness import RowStats


class Softmax(Temperature):
    """Ordinary softmax at β = 1; β > 1 sharpens, β < 1 softens, 0 is the uniform average."""

    uses = "constant"

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = require_number("beta", beta)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """The same β for every row."""
        return stats.mean.new_full((), self.beta)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"beta={self.beta:g}"
