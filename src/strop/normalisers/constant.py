"""Softmax with a constant inverse temperature."""

from __future__ import annotations

from strop._checks import require_number
from strop._types import Rows
from strop.normalisers.base import Temperature
from strop.normalisers.fusion import ConstantBeta
from strop.sharpness import RowStats


class Softmax(Temperature):
    """Ordinary softmax, with one inverse temperature for all rows.

        weights = softmax(β·e),     β = 1/θ

    β = 1 is what torch computes. β > 1 sharpens, β < 1 softens, 0 is the uniform average. It learns nothing. It is the
    baseline, and right where training and use have inputs of the same size. As keys are added, its weights must spread
    thinner (`strop.sharpness.dispersion_bounds`); a constant β > 1 also sharpens the short rows that were fine as they
    were.

    Args:
        beta: Inverse temperature. It multiplies the logits.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Softmax
        >>> logits = torch.tensor([[2.0, 1.0, 0.0]])
        >>> Softmax().weights(logits)
        tensor([[0.6652, 0.2447, 0.0900]])
        >>> Softmax(beta=3).weights(logits)
        tensor([[0.9503, 0.0473, 0.0024]])
    """

    name = "softmax"
    uses = "constant"

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = require_number("beta", beta)

    def fusion(self) -> ConstantBeta:
        """One number."""
        return ConstantBeta(self.beta)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """The same β for every row."""
        return stats.mean.new_full((), self.beta)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"beta={self.beta:g}"
