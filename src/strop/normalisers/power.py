"""A learned power of the length: β = (n / n_train)^γ, with n the keys that the row may see.

γ is learned, per head or one for all, and starts at 0, which is softmax. A rule of our own: among n items drawn at
random the gap between the largest and the next shrinks like 1/n, so finding the largest needs β to grow like a power
of n, where a logarithm falls behind. At n = n_train β is 1 whatever γ is.
"""

from __future__ import annotations

from strop._checks import require_number
from strop._types import Rows
from strop.normalisers.base import Temperature, per_head
from strop.sharpness import RowStats


class PowerN(Temperature):
    """Inverse temperature that is a learned power of the number of keys."""

    uses = "n_keys"

    def __init__(self, trained_length: float, heads: int | None = None, init: float = 0.0) -> None:
        super().__init__()
        self.trained_length = require_number("trained_length", trained_length, above=0)
        self.heads = heads
        self.exponent = per_head(heads, require_number("init", init))

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """(n / n_train)^γ; a row that sees nothing counts as one key."""
        ratio = stats.n_keys.clamp(min=1).to(stats.mean.dtype) / self.trained_length
        return (self.exponent.to(ratio.dtype) * ratio.log()).exp()

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"trained_length={self.trained_length:g}"
