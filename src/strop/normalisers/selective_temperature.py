"""A temperature that each query chooses for itself, after selective self-attention (arXiv 2411.12892):

    weights = softmax(τ(q)·logits),     τ(q) = 1 + tanh(w_h·q)

with a vector w_h per head that starts at zero, which is softmax; τ lies between 0 and 2. That paper reads the token's
input and has a temperature of the position and of the value too; an attention call has only the query, `SSMax` serves
for the length, and values are not a normaliser's business.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from strop._checks import require
from strop._types import Rows
from strop.normalisers.constant import Softmax


class SelectiveTemperature(Softmax):
    """Softmax whose inverse temperature is a learned function of the query."""

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        require(heads >= 1, "heads must be at least 1", heads)
        require(head_dim >= 1, "head_dim must be at least 1", head_dim)
        self.heads: int = heads
        self.tau_weight = nn.Parameter(torch.zeros(heads, 1, head_dim))

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """q·τ(q) for query [*batch, heads, n_q, head_dim]."""
        return query * (1.0 + torch.tanh((query * self.tau_weight.to(query.dtype)).sum(-1, keepdim=True)))
