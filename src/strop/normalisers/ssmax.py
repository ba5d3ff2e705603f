"""Scalable softmax, SSMax (arXiv 2501.19399): β = a·log n + b, with n the keys that the row may see.

a is learned, per head or one for all, and starts at 0.43 as in that paper; b is learned too where `bias` is set and
starts at 0. At n = 1 and b = 0, β is 0, which changes nothing: the only key has weight 1.
"""

from __future__ import annotations

from torch import nn

from strop._checks import require_number
from strop._types import Rows
from strop.normalisers.base import Temperature, log_n_keys, per_head
from strop.sharpness import RowStats


class SSMax(Temperature):
    """Inverse temperature that grows with the logarithm of the number of keys."""

    uses = "n_keys"

    def __init__(self, heads: int | None = None, init: float = 0.43, bias: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.slope = per_head(heads, require_number("init", init))
        self.offset: nn.Parameter | None = per_head(heads, 0.0) if bias else None

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """a·log n + b."""
        beta = self.slope.to(stats.mean.dtype) * log_n_keys(stats.n_keys, stats.mean.dtype)
        return beta if self.offset is None else beta + self.offset.to(beta.dtype)
