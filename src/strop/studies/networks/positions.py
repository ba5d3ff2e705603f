"""How a decoder knows where a token stands: turned queries and keys (RoPE), a bias (ALiBi), or not at all (NoPE).

    rope    elements 2i and 2i + 1 of a head, read as a complex number, are turned by position·10000^(−2i/d)
    alibi   logits_ij − 2^(−8h/heads)·(i − j) for head h = 1 … heads; future keys are hidden by −inf

The product of a turned query and a turned key depends on the difference of their positions alone.

Positions are 0 … T − 1, or T of L places, drawn for each sequence and sorted (arXiv 2305.16843): the order of tokens is
kept, their distances vary, and a short sequence has seen the distances of a long one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from strop._checks import require

POSITIONS = ("rope", "nope", "alibi")
ROPE_BASE = 10_000.0


class Places(NamedTuple):
    """What positions do: complex factors [*batch, T, 1, head_dim/2] or None, bias [*batch, heads, T, T] or None."""

    factors: Tensor | None = None
    bias: Tensor | None = None

    @classmethod
    def of(
        cls, kind: str, length: int, heads: int, head_dim: int, like: Tensor, positions: Tensor | None = None
    ) -> Places:
        """Work them out once for all layers; `positions` [*batch, T] are 0 … T − 1 if None."""
        place = torch.arange(length, device=like.device) if positions is None else positions
        place = place.to(like.device, torch.float64)
        if kind == "rope":
            half = torch.arange(head_dim // 2, dtype=torch.float64, device=like.device)
            angle = place[..., None] * ROPE_BASE ** (-2.0 * half / head_dim)
            return cls(torch.polar(torch.ones_like(angle), angle).to(like.dtype.to_complex())[..., None, :])
        if kind == "alibi":
            slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=like.device) / heads)
            bias = slope[:, None, None] * (place[..., None, None, :] - place[..., None, :, None])
            hidden = torch.ones(length, length, dtype=torch.bool, device=like.device).triu(1)
            return cls(bias=bias.masked_fill(hidden, -torch.inf).to(like.dtype))
        return cls()

    def turn(self, x: Tensor) -> Tensor:
        """Turn queries or keys [*batch, T, heads, head_dim] by their positions."""
        if self.factors is None:
            return x
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * self.factors).flatten(-2)


def draw_positions(count: int, length: int, spread: int, generator: Generator) -> Tensor:
    """For each of `count` sequences, `length` of the places 0 … spread − 1, sorted: [count, length]."""
    require(length <= spread, "spread must be at least the tokens of a sequence", f"{spread} for {length}")
    return torch.rand(count, spread, generator=generator).argsort(1)[:, :length].sort(1).values
