"""Differential attention: one softmax less another."""

from __future__ import annotations

import torch
from torch import nn

from strop._checks import require, require_number
from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, softmax, visible
from strop.sharpness import upcast


class Differential(Normaliser):
    """The difference of two softmaxes, in which what both see cancels.

        weights of heads 2h and 2h+1 alike = softmax(e_2h) − λ_h·softmax(e_2h+1)

    From arXiv 2410.05258. Heads come in pairs, and the two heads of a pair hold the two halves of that paper's value of
    double width, so the output is [*batch, 2H, n_q, d_v] as for any other normaliser.

    It learns λ_h, one number a pair. That paper writes it as exp(a·b) − exp(c·d) + λ_init with four learned vectors for
    all heads of a layer: the same values can be reached, at another pace; one number keeps it plain and needs no random
    start. The paper's rule for the start, 0.8 − 0.6·exp(−0.3·(layer − 1)), reaches 0.8 in deep layers. The paper's norm
    after each head is the model's.

    Train with it; a model of another kind has no such pairs. A weight may be negative, so no entropy is defined. It
    runs in `reference` only, with O(n²) memory.

    Args:
        heads: Number of query heads, both of each pair counted.
        init: Where λ starts.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Differential
        >>> logits = torch.tensor([[[2.0, 0.0, 1.0]], [[0.0, 0.0, 1.0]]])  # both heads like the last key
        >>> Differential(heads=2).weights(logits).detach()[0]
        tensor([[ 0.4957, -0.0795, -0.2162]])
    """

    name = "differential"
    rowwise = False
    simplex = False

    def __init__(self, heads: int, init: float = 0.8) -> None:
        super().__init__()
        remedy = "Two heads make one differential head"
        require(heads >= 2 and heads % 2 == 0, "heads must be even and at least 2", heads, remedy)
        self.heads: int = heads
        self.lambda_ = nn.Parameter(torch.full((heads // 2, 1, 1), require_number("init", init)))

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """The difference, for both heads of each pair; a key hidden from one of them stays hidden from it."""
        each = softmax(upcast(logits), keep)
        even, odd = each[..., 0::2, :, :], each[..., 1::2, :, :]
        difference = even - self.lambda_.to(each.dtype) * odd
        return visible(difference.repeat_interleave(2, dim=-3), keep)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"heads={self.heads}"
