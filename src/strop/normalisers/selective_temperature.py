"""A temperature that each query chooses for itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from strop._checks import require
from strop._types import Rows
from strop.normalisers.constant import Softmax


class SelectiveTemperature(Softmax):
    """Softmax with an inverse temperature that is a learned function of the query.

        weights = softmax(τ(q)·e),     τ(q) = 1 + tanh(w_h·q)

    After selective self-attention (arXiv 2411.12892). It learns w_h, a vector per head that starts at zero, which is
    softmax; τ lies between 0 and 2. That paper reads the token's input and has a temperature of the position and of the
    value too; an attention call has only the query, `SSMax` serves for the length, and values are not a normaliser's
    business.

    Train with it where some tokens ought to look sharply and others widely. It does not know n, so by itself it is no
    remedy for longer inputs.

    Args:
        heads: Number of query heads.
        head_dim: Size of a query.

    Examples:
        >>> import torch
        >>> import strop
        >>> from strop.normalisers import SelectiveTemperature
        >>> rule = SelectiveTemperature(heads=1, head_dim=2)
        >>> rule.tau_weight.data[0, 0] = torch.tensor([0.0, 2.0])  # as if learned: the second element decides
        >>> query = torch.tensor([[[2.0, 1.0], [2.0, -1.0]]])  # [heads, n_q, head_dim]
        >>> key = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
        >>> strop.attention(query, key, torch.eye(2)[None], normaliser=rule).detach()  # the values show the weights
        tensor([[[0.9415, 0.0585],
                 [0.5127, 0.4873]]])
    """

    name = "selective_temperature"

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        require(heads >= 1, "heads must be at least 1", heads)
        require(head_dim >= 1, "head_dim must be at least 1", head_dim)
        self.heads: int = heads
        self.tau_weight = nn.Parameter(torch.zeros(heads, 1, head_dim))

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """q·τ(q) for query [*batch, heads, n_q, head_dim]."""
        return query * (1.0 + torch.tanh((query * self.tau_weight.to(query.dtype)).sum(-1, keepdim=True)))

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"heads={self.heads}, head_dim={self.tau_weight.shape[-1]}"
