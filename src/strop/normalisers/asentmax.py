"""Adaptive-scalable entmax, ASEntmax."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._checks import require, require_number
from strop._types import Rows
from strop.normalisers.base import log_n_keys
from strop.normalisers.entmax import Entmax15


class ASEntmax(Entmax15):
    """1.5-entmax of logits that grow with a learned power of log n.

        weights = entmax_1.5((δ + β·(log n)^γ)·e)
        β = softplus(q·w_β),     γ = 2·tanh(q·w_γ)

    n is the number of keys that the row may see. From arXiv 2506.16640. It learns w_β and w_γ, two vectors a head that
    start at zero. That paper projects the layer's input; an attention call has only the query, so the projections here
    read the query. Rows of one or two keys take n = 2, which keeps the power finite.

    Train with it where few keys matter among many. Where every key matters, as in an average over thousands, it may
    lose some of them. It must be trained: even at its start it is not softmax.

    Args:
        heads: Number of query heads.
        head_dim: Size of a query.
        delta: δ, the part of the scale that does not depend on n.

    Examples:
        >>> import torch
        >>> import strop
        >>> from strop.normalisers import ASEntmax
        >>> query = torch.tensor([[[2.0, 0.0]]])  # [heads, n_q, head_dim]
        >>> key = torch.tensor([[[2.0, 0.0], [1.5, 0.0], [-2.0, 0.0]]])
        >>> rule = ASEntmax(heads=1, head_dim=2)
        >>> strop.attention(query, key, torch.eye(3)[None], normaliser=rule).detach()  # the values show the weights
        tensor([[[0.8835, 0.1165, 0.0000]]])
    """

    name = "asentmax"

    def __init__(self, heads: int, head_dim: int, delta: float = 1.0) -> None:
        super().__init__()
        require(heads >= 1, "heads must be at least 1", heads)
        require(head_dim >= 1, "head_dim must be at least 1", head_dim)
        self.heads = heads
        self.delta = require_number("delta", delta)
        self.beta_weight = nn.Parameter(torch.zeros(heads, 1, head_dim))
        self.gamma_weight = nn.Parameter(torch.zeros(heads, 1, head_dim))

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """Scale query [*batch, heads, n_q, head_dim]."""
        beta = F.softplus((query * self.beta_weight.to(query.dtype)).sum(-1, keepdim=True))
        gamma = 2.0 * torch.tanh((query * self.gamma_weight.to(query.dtype)).sum(-1, keepdim=True))
        log_n = log_n_keys(n_keys.clamp(min=2), query.dtype)[..., None]
        return query * (self.delta + beta * log_n.pow(gamma))

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"heads={self.heads}, head_dim={self.beta_weight.shape[-1]}, delta={self.delta:g}"
