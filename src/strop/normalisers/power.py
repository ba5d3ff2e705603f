"""A learned power of the length."""

from __future__ import annotations

from strop._checks import require_number
from strop._types import Rows
from strop.normalisers.base import Temperature, per_head
from strop.sharpness import RowStats


class PowerN(Temperature):
    """Sharpen with a learned power of the number of keys.

        weights = softmax(β·e),     β = (n / n_train)^γ

    n is the number of keys that the row may see. A rule of our own: among n items drawn at random the gap between the
    largest and the next shrinks like 1/n, so finding the largest needs β to grow like a power of n, where a logarithm
    falls behind.

    It learns γ, per head or one for all. At n = n_train β is 1 whatever γ is. Use it where the largest of ever more
    items must be found; with γ > 0 a row shorter than n_train is softened.

    Args:
        trained_length: n_train, the number of keys at which β is 1.
        heads: Number of query heads, to have one γ for each. None: one for all.
        init: Where γ starts. 0 is softmax.

    Examples:
        >>> import torch
        >>> from strop import RowStats
        >>> from strop.normalisers import PowerN
        >>> lengths = RowStats.of_counts(torch.tensor([16, 64, 4096]), torch.float32)
        >>> PowerN(trained_length=64, init=0.5).inverse_temperature(lengths).detach()  # a square root
        tensor([0.5000, 1.0000, 8.0000])
    """

    name = "power_n"
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
