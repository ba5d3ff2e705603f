"""Scalable softmax, SSMax."""

from __future__ import annotations

from torch import nn

from strop._checks import require_number
from strop._types import Rows
from strop.normalisers.base import Temperature, log_n_keys, per_head
from strop.sharpness import RowStats


class SSMax(Temperature):
    """Sharpen with the logarithm of the number of keys, by a learned factor.

        weights = softmax(β·e),     β = a·log n + b

    n is the number of keys that the row may see. From arXiv 2501.19399. It learns a, per head or one for all, and b too
    where `bias` is set; b starts at 0. At n = 1 and b = 0, β is 0, which changes nothing: the only key has weight 1.

    Train with it, or fine-tune: one number a head, no extra time, and rows stay sharp as n grows. In a model that was
    trained with softmax the start of a gives β = 1 at n = 10 only; take `RelativeLogN` or `strop.calibrate` there.

    Args:
        heads: Number of query heads, to have one a and b for each. None: one for all.
        init: Where a starts.
        bias: Learn b as well.

    Examples:
        >>> import torch
        >>> from strop import RowStats
        >>> from strop.normalisers import SSMax
        >>> lengths = RowStats.of_counts(torch.tensor([10, 100, 10000]), torch.float32)
        >>> SSMax().inverse_temperature(lengths).detach()
        tensor([0.9901, 1.9802, 3.9604])
    """

    name = "ssmax"
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

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"heads={self.heads}, bias={self.offset is not None}"
