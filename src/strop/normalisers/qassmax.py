"""Query-aware scalable softmax, QASSMax."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._checks import require
from strop._types import Rows
from strop.normalisers.base import log_n_keys
from strop.normalisers.constant import Softmax


class QASSMax(Softmax):
    """Softmax whose query is first scaled by learned functions of log n and of itself.

        q ← q · MLP(log n) · (1 + tanh(MLP(q)))
        weights = softmax(scale·q·k)

    n is the number of keys that the row may see. From TabICLv2. It learns both MLPs, each with one hidden layer of GELU
    units. The first has an output per head. The second is shared by the heads and starts at zero, so that the gate is 1
    at first. Parameters are named and shaped as in TabICL's own module, so that its weights load.

    Train with it where the right sharpness depends on the query as well as on n. `SSMax` does with one number a head.

    Args:
        heads: Number of query heads.
        head_dim: Size of a query.
        hidden: Hidden units of each MLP.
        elementwise: Give each element of the query a factor of its own, in place of one factor for all.

    Examples:
        >>> import torch
        >>> import strop
        >>> from strop.normalisers import QASSMax
        >>> rule = QASSMax(heads=4, head_dim=8)
        >>> query, key, value = torch.randn(3, 4, 10, 8)  # each [heads, n, head_dim]
        >>> strop.attention(query, key, value, is_causal=True, normaliser=rule).shape
        torch.Size([4, 10, 8])
        >>> sum(parameter.numel() for parameter in rule.parameters())
        1029
    """

    name = "qassmax"

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

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"heads={self.heads}, elementwise={self.outputs > 1}"
