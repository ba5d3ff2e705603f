"""Normalisers that keep the largest logits only. A visible NaN makes its row NaN."""

from __future__ import annotations

import torch

from strop._checks import require
from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, softmax
from strop.sharpness import upcast


class TopK(Normaliser):
    """Softmax over the k largest logits of each row.

        weights = softmax(e) over the keys with e_j ≥ the k-th largest visible logit,     0 elsewhere

    All keys that tie with the k-th are kept, so the order of the keys never matters. It learns nothing. Use it where at
    most k keys matter: the others cannot dilute them, however many there are. Averages and counts are lost.

    Args:
        k: How many of the largest logits to keep.

    Examples:
        >>> import torch
        >>> from strop.normalisers import TopK
        >>> TopK(k=3).weights(torch.tensor([[3.0, 2.0, 1.0, 1.0, 0.0]]))  # two keys tie for the third place
        tensor([[0.6103, 0.2245, 0.0826, 0.0826, 0.0000]])
    """

    name = "top_k"

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
    """Equal weights on all keys that tie for the largest logit.

        w_j = 1 / #{l : e_l = max e} where e_j = max e,     0 elsewhere

    It learns nothing, and no gradient reaches the logits: use it on trained models only. Unlike `Hard` it does not
    depend on the order of the keys.

    Examples:
        >>> import torch
        >>> from strop.normalisers import AverageHard
        >>> AverageHard().weights(torch.tensor([[1.0, 3.0, 3.0]]))
        tensor([[0.0000, 0.5000, 0.5000]])
    """

    name = "average_hard"

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Indicator of the maximum, divided by the number of ties."""
        best = _is_largest(logits, keep)
        return best / best.sum(-1, keepdim=True).clamp(min=1.0)


class Hard(Normaliser):
    """All weight on the largest logit, on the first of equals.

        w_j = 1 for the first j with e_j = max e,     0 elsewhere

    It learns nothing. It is piecewise constant: no gradient reaches the logits, unless it is told to take that of
    softmax in its place (straight-through, arXiv 1308.3432). Put it into a trained model to see whether the right key
    is the largest at all, which no temperature can change. It is a diagnosis more than a remedy: averages and counts
    are lost.

    Args:
        straight_through: Train with the gradient of softmax.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Hard
        >>> Hard().weights(torch.tensor([[1.0, 3.0, 3.0]]))
        tensor([[0., 1., 0.]])
    """

    name = "hard"

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

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"straight_through={self.straight_through}"


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
