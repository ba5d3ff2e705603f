"""How a decoder knows where a token stands: turned queries and keys (RoPE), a bias (ALiBi), or not at all (NoPE).

rope    the halves x1, x2 of a head become x1·cos − x2·sin and x2·cos + x1·sin, angle_i = position·10000^(−2i/d);
        the product of a query and a key then depends on the difference of their positions alone
alibi   logits_ij − 2^(−8h/heads)·(i − j) for head h = 1 … heads; future keys are hidden by −inf
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

POSITIONS = ("rope", "nope", "alibi")
BASE = 10_000.0


class Places(NamedTuple):
    """What positions 0 … T − 1 do to attention: cos and sin [T, head_dim/2] or None, bias [heads, T, T] or None."""

    cos: Tensor | None = None
    sin: Tensor | None = None
    bias: Tensor | None = None

    @classmethod
    def of(cls, kind: str, length: int, heads: int, head_dim: int, like: Tensor) -> Places:
        """Work them out once for all layers."""
        place = torch.arange(length, dtype=torch.float64, device=like.device)
        if kind == "rope":
            half = torch.arange(head_dim // 2, dtype=torch.float64, device=like.device)
            angle = place[:, None] * BASE ** (-2.0 * half / head_dim)
            return cls(angle.cos().to(like.dtype), angle.sin().to(like.dtype))
        if kind == "alibi":
            slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=like.device) / heads)
            bias = slope[:, None, None] * (place - place[:, None])
            hidden = torch.ones(length, length, dtype=torch.bool, device=like.device).triu(1)
            return cls(bias=bias.masked_fill(hidden, -torch.inf).to(like.dtype))
        return cls()

    def turn(self, x: Tensor) -> Tensor:
        """Turn queries or keys [*batch, T, head_dim] by their positions."""
        if self.cos is None or self.sin is None:
            return x
        one, two = x.chunk(2, -1)
        return torch.cat([one * self.cos - two * self.sin, two * self.cos + one * self.sin], -1)
