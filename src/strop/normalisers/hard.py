"""Normalisers that keep the largest logits only.

    TopK          softmax over the k largest visible logits and all that tie with the k-th: order never matters
    Hard          weight 1 on the largest logit, on the first of equals
    AverageHard   equal weights on all keys that tie for the largest

Hard and AverageHard are piecewise constant: no gradient reaches the logits, unless Hard is told to take that of softmax
in its place (straight-through, arXiv 1308.3432). A visible NaN makes its row NaN.
"""

from __future__ import annotations

import torch

from strop._checks import require
from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, softmax
from strop.sharpness import upcast


class TopK(Normaliser):
    """Softmax over the k largest logits of each row."""

    def __init__(self, k: int = 32) -> None:
        super().__init__()
        require(isinstance(k, int) and k >= 1, "k must be a whole number of at least 1", k)
        self.k = k

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Softmax over what reaches the k-th largest visible logit."""
        logits = upcast(logits)
        if logits.shape[-1] <= self.k:
            return softmax(logits, keep)
        visible = logits if keep is None else torch.where(keep, logits, -torch.inf)
        kth = visible.detach().topk(self.k, dim=-1).values[..., -1:]
        reaches = ~(visible < kth)
        return softmax(logits, reaches if keep is None else reaches & keep)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"k={self.k}"


class AverageHard(Normaliser):
    """Uniform over the keys that tie for the largest logit."""

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Indicator of the maximum, divided by the number of ties."""
        best = _is_largest(logits, keep)
        return best / best.sum(-1, keepdim=True).clamp(min=1.0)


class Hard(Normaliser):
    """One-hot at the largest logit, the first of equals; `straight_through` trains with the gradient of softmax."""

    def __init__(self, straight_through: bool = False) -> None:
        super().__init__()
        self.straight_through = straight_through

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Indicator of the first maximum."""
        best = _is_largest(logits, keep)
        best = torch.where(best.cumsum(-1) > 1.0, 0.0, best)
        if not (self.straight_through and torch.is_grad_enabled()):
            return best
        soft = softmax(upcast(logits), keep)
        return best + (soft - soft.detach())


def _is_largest(logits: Logits, keep: Keep | None) -> Weights:
    """1 at every visible key that ties for the largest, 0 elsewhere, NaN along a row with a visible NaN."""
    logits = upcast(logits).detach()
    if logits.shape[-1] == 0:
        return torch.zeros_like(logits)
    visible = logits if keep is None else torch.where(keep, logits, -torch.inf)
    top = visible.amax(-1, keepdim=True)
    best = (visible == top).to(logits.dtype)
    best = best if keep is None else torch.where(keep, best, 0.0)
    return torch.where(top.isnan() if keep is None else top.isnan() & keep, torch.nan, best)
