"""Query-aware scalable softmax, QASSMax (TabICLv2): softmax over the logits of a query that is scaled first,

    q ← q · MLP(log n) · (1 + tanh(MLP(q)))

with n the keys that the row may see. Both MLPs have one hidden layer of GELU units. The first has an output per head,
the second is shared by the heads and starts at zero, so that the gate is 1. With `elementwise`, each element of q has
a factor of its own. Parameters are named and shaped as in TabICL's own module, so that its weights load.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._checks import require
from strop._types import Rows
from strop.normalisers.base import log_n_keys
from strop.normalisers.constant import Softmax


class QASSMax(Softmax):
    """Softmax whose query is scaled by learned functions of log n and of itself."""

    def __init__(self, heads: int, head_dim: int, hidden: int = 64, elementwise: bool = False) -> None:
        super().__init__()
        require(heads >= 1, "heads must be at least 1", heads)
        require(head_dim >= 1, "head_dim must be at least 1", head_dim)
        self.heads: int = heads
        self.outputs = head_dim if elementwise else 1
        self.base_mlp = nn.Sequential(nn.Linear(1, hidden), nn.GELU(), nn.Linear(hidden, heads * self.outputs))
        self.query_mlp = nn.Sequential(nn.Linear(head_dim, hidden), nn.GELU(), nn.Linear(hidden, self.outputs))
        for parameter in self.query_mlp[2].parameters():
            nn.init.zeros_(parameter)

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """Scale query [*batch, heads, n_q, head_dim] by what n and the query itself call for."""
        weight_in, bias_in, weight, bias = (p.to(query.dtype) for p in self.base_mlp.parameters())
        hidden = F.gelu(F.linear(log_n_keys(n_keys, query.dtype)[..., None], weight_in, bias_in))
        hidden = hidden if hidden.ndim > 2 else hidden[None]  # [.., heads or 1, n_q, hidden]: n may differ by head
        base = hidden @ weight.view(self.heads, self.outputs, -1).mT + bias.view(self.heads, 1, self.outputs)
        gate_in, gate_bias_in, gate, gate_bias = (p.to(query.dtype) for p in self.query_mlp.parameters())
        gate = F.linear(F.gelu(F.linear(query, gate_in, gate_bias_in)), gate, gate_bias)
        return query * base * (1.0 + torch.tanh(gate))
