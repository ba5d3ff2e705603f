"""The narrow waist: what one row of attention logits says about itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from strop._types import Keep, Logits, Rows


class RowStats(NamedTuple):
    """How sharp each query row is: five numbers a row, as softmax at β = 1 sees its logits.

    For the visible logits e_1 … e_n of a row, with p = softmax(e):

        n_keys          n, the keys that the row may see
        max, min        over the visible keys
        logsumexp       log Σ exp(e_j)
        mean            E_p[e] = Σ p_j e_j
        entropy         H = −Σ p_j log p_j = logsumexp − mean        (nats)
        effective_keys  exp(H)
        top_weight      max_j p_j = exp(max − logsumexp)
        spread          δ = max − min                                (Lemma 2.1 of arXiv 2410.01104)

    Get it from `strop.attention(…, return_stats=True)`, or from logits by `RowStats.of`. Two disjoint sets of keys
    merge exactly, so the statistics of a row can be gathered over blocks, over ranks or over time: logsumexp by
    log-add-exp, mean by the shares exp(logsumexp_part − logsumexp).

    A row that sees nothing has n_keys 0, max −inf, min +inf, logsumexp −inf and mean 0. It is the identity of `merge`,
    its entropy, spread and top weight are 0, and no gradient through it is ever NaN. NaN among the visible logits makes
    its own row NaN and no other.

    Every field is [*batch, n_q]. Printing shows the means over all rows; the tensors are in the fields.

    Attributes:
        n_keys: Keys that each row may see.
        max: Largest visible logit.
        min: Smallest visible logit.
        logsumexp: log Σ exp(e_j).
        mean: Mean of the logits under softmax.

    Examples:
        >>> import torch
        >>> from strop import RowStats
        >>> logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
        >>> stats = RowStats.of(logits)
        >>> stats
        RowStats(rows=(2,): n_keys 3.0, entropy 0.97 nats, top weight 0.5, spread 1.0)
        >>> stats.entropy  # log 3 = 1.0986 is the most that three keys can have
        tensor([0.8324, 1.0986])
        >>> stats.top_weight
        tensor([0.6652, 0.3333])
        >>> in_parts = RowStats.of(logits[:, :2]).merge(RowStats.of(logits[:, 2:]))
        >>> torch.allclose(in_parts.entropy, stats.entropy)
        True
    """

    n_keys: Rows
    max: Rows
    min: Rows
    logsumexp: Rows
    mean: Rows

    @classmethod
    def of(cls, logits: Logits, keep: Keep | None = None) -> RowStats:
        """Measure logits.

        Args:
            logits: [*batch, n_q, n_k], scaled, hidden keys included.
            keep: True where a row may look, broadcastable to the logits. None: everywhere.
        """
        logits = upcast(logits)
        keep = torch.ones((), dtype=torch.bool, device=logits.device) if keep is None else keep
        keep = keep.broadcast_to(torch.broadcast_shapes(keep.shape, logits.shape))
        if logits.shape[-1] == 0:
            return cls.empty(keep.shape[:-1], logits)
        n_keys = keep.sum(-1)
        empty = n_keys == 0
        top = logits.masked_fill(~keep, -torch.inf).amax(-1)
        low = logits.masked_fill(~keep, torch.inf).amin(-1)
        shift = top.masked_fill(empty, 0.0)
        visible = torch.where(keep, logits, shift[..., None])  # hidden logits leave before they can make a NaN gradient
        unnormalised = torch.where(keep, (visible - shift[..., None]).exp(), 0.0)
        total = unnormalised.sum(-1).masked_fill(empty, 1.0)
        logsumexp = (shift + total.log()).masked_fill(empty, -torch.inf)
        return cls(n_keys, top, low, logsumexp, (unnormalised * visible).sum(-1) / total)

    @classmethod
    def empty(cls, shape: tuple[int, ...], like: Tensor) -> RowStats:
        """Rows that see nothing: the identity of `merge`."""
        none = torch.zeros(shape, dtype=torch.int64, device=like.device)
        zero = torch.zeros(shape, dtype=like.dtype, device=like.device)
        return cls(none, zero - torch.inf, zero + torch.inf, zero - torch.inf, zero)

    @classmethod
    def of_counts(cls, n_keys: Rows, dtype: torch.dtype) -> RowStats:
        """Rows of which only the number of keys is known; the rest is NaN."""
        unknown = torch.full_like(n_keys, torch.nan, dtype=dtype)
        return cls(n_keys, unknown, unknown, unknown, unknown)

    def merge(self, other: RowStats) -> RowStats:
        """Return the statistics of the union of two disjoint sets of keys."""
        n_keys = self.n_keys + other.n_keys
        logsumexp = torch.logaddexp(self.logsumexp, other.logsumexp)
        finite = logsumexp.masked_fill(n_keys == 0, 0.0)
        mean = self.mean * (self.logsumexp - finite).exp() + other.mean * (other.logsumexp - finite).exp()
        top, low = torch.maximum(self.max, other.max), torch.minimum(self.min, other.min)
        return RowStats(n_keys, top, low, logsumexp, mean)

    def map(self, change: Callable[[Tensor], Tensor]) -> RowStats:
        """Apply one change of shape, device or dtype to every field."""
        return RowStats(*(change(field) for field in self))

    def __repr__(self) -> str:
        if not all(isinstance(field, Tensor) for field in self):
            return f"RowStats({', '.join(f'{name}={field!r}' for name, field in self._asdict().items())})"
        return f"RowStats(rows={tuple(self.mean.shape)}{_describe_means(self)})"

    @property
    def entropy(self) -> Rows:
        """H in nats, between 0 and log n_keys; 0 for a row that sees nothing."""
        seen = self.n_keys > 0
        return torch.where(seen, torch.where(seen, self.logsumexp, 0.0) - self.mean, 0.0).clamp(min=0.0)

    @property
    def effective_keys(self) -> Rows:
        """exp(H): how many equally weighted keys would have this entropy; 0 for a row that sees nothing."""
        return torch.where(self.n_keys > 0, self.entropy.exp(), 0.0)

    @property
    def top_weight(self) -> Rows:
        """Largest softmax weight of the row; 0 for a row that sees nothing."""
        seen = self.n_keys > 0
        return torch.where(seen, (self.max - torch.where(seen, self.logsumexp, 0.0)).exp(), 0.0)

    @property
    def spread(self) -> Rows:
        """δ = max − min over the visible keys; 0 for a row that sees nothing."""
        return torch.where(self.n_keys > 0, self.max - self.min, 0.0)


def _describe_means(stats: RowStats) -> str:
    """Say the means over all rows; nothing where there is no row, or none whose numbers can be read."""
    if stats.mean.numel() == 0:
        return ""
    fields = stats.n_keys, stats.entropy, stats.top_weight, stats.spread
    try:
        n_keys, entropy, top_weight, spread = (float(field.float().mean()) for field in fields)
    except RuntimeError:  # inside a transform such as vmap there are no numbers yet
        return ""
    return f": n_keys {n_keys:.1f}, entropy {entropy:.2f} nats, top weight {top_weight:.2g}, spread {spread:.1f}"


def entropy_of(weights: Tensor) -> Tensor:
    """Return the entropy in nats of weights along the last axis.

        H = −Σ w_j log w_j,     0·log 0 = 0

    Args:
        weights: [*batch, n_k], at least 0 and summing to 1. For signed or unnormalised weights the result is
            meaningless.

    Examples:
        >>> import torch
        >>> from strop.sharpness import entropy_of
        >>> entropy_of(torch.tensor([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0]]))  # log 2 = 0.6931
        tensor([0.3251, 0.6931])
    """
    return -torch.xlogy(weights, weights).sum(-1)


def upcast(tensor: Tensor) -> Tensor:
    """Return half precision as float32, in which all statistics are computed; float32 and float64 stay as they are.

    Args:
        tensor: Any floating-point tensor.

    Examples:
        >>> import torch
        >>> from strop.sharpness import upcast
        >>> upcast(torch.zeros(2, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
