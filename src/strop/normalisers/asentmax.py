"""Adaptive-scalable entmax, ASEntmax (arXiv 2506.16640): 1.5-entmax of logits that a learned power of log n scales,

    weights = entmax_1.5((δ + β·(log n)^γ)·logits),     δ = 1, β = softplus(q·w_β), γ = 2·tanh(q·w_γ)

with n the keys that the row may see and w_β, w_γ vectors per head that start at zero. That paper projects the layer's
input; an attention call has only the query, so the projections here read the query. Rows of one or two keys take n =
2, which keeps the power finite.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._checks import require, require_number
from strop._types import Rows
from strop.normalisers.base import log_n_keys
from strop.normalisers.entmax import Entmax15


class ASEntmax(Entmax15):
    """1.5-entmax with a learned, query-dependent scale that grows with log n."""

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
