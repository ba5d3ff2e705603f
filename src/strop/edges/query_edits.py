"""Parts that edit the query where it is made. Unlike a temperature they can change the order of the keys.

    pairs    q ← exp(a)·q     a number for each pair of dimensions that a rotation turns together, so that the edit
                              commutes with it; for each dimension where positions are not rotary. Where the heads of a
                              layer share a query norm, the numbers act after it and are shared too.
    query    q ← q + up·down·x    a low-rank edit of the query projection, W + up·down, x its input

Keys, values and everything else stay as they are. Both fold into the model's own weights.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.edges.fold import Fold
from strop.edges.part import Part
from strop.patching.layer_changes import LayerChange
from strop.patching.layout import AttentionLayout, Projection, find_layout
from strop.patching.placement import weights_present

USUAL = 5.0
"""The length of a query projection's row for which steps were chosen: that of SmolLM2."""


class Pairs(Part):
    """A factor exp(pairs[h, index[i]]) for dimension i of head h; one row of `pairs` where a norm is shared."""

    term: ClassVar[str] = "pairs"
    fields = ("pairs", "index")

    def __init__(self, pairs: Tensor, index: Tensor) -> None:
        super().__init__()
        self.pairs = nn.Parameter(pairs.float().clone())
        self.index: Tensor
        self.register_buffer("index", index.long().clone(), persistent=False)

    @classmethod
    def start(cls, module: nn.Module, heads: int, rank: int) -> Self:
        """Zeros for every pair of every head."""
        layout, size = _find(module, heads), len(find_projection(module, heads).rows) // heads
        index = find_pairs(module, size)
        shared = layout.query_weight is not None and layout.query_weight.numel() == size
        return cls(torch.zeros(1 if shared else heads, int(index.max()) + 1), index)

    def factors(self) -> Tensor:
        """The factor of every dimension [heads, d], or [1, d]."""
        return self.pairs.exp()[:, self.index]

    def fold(self) -> Fold:
        """Factors of rows, or of a shared norm."""
        factors = self.factors().detach()
        return Fold(norm=factors[0]) if len(factors) == 1 else Fold(query=factors)

    def describe(self, n_keys: float, entropy: float) -> dict[str, Tensor]:
        """β as the mean of the pairs; turned where they differ."""
        pairs = self.pairs.detach()
        return {"beta": pairs.mean(-1).exp(), "turned": pairs.amax(-1) != pairs.amin(-1)}

    def change_layer(self, module: nn.Module, heads: int) -> LayerChange:
        """Multiply what the projection or, where there is one, the norm gives."""
        layout, projection = _find(module, heads), find_projection(module, heads)
        norm, weight = layout.query_norm, layout.query_weight
        if norm is not None and weight is not None:
            shape = weight.shape
            return LayerChange(norm, gives=lambda _, out: out * self.factors().reshape(shape).to(out))

        def scale(_: Tensor, out: Tensor) -> Tensor:
            return projection.put(out, projection.pick(out) * self.factors().flatten().to(out))

        return LayerChange(projection.layer, gives=scale)


class LowRankQuery(Part):
    """W + up·down with up [heads·d, rank] and down [rank, d_in]; it starts with up = 0."""

    term: ClassVar[str] = "query"
    fields = ("up", "down")

    def __init__(self, up: Tensor, down: Tensor) -> None:
        super().__init__()
        self.up = nn.Parameter(up.float().clone())
        self.down = nn.Parameter(down.float().clone())

    @classmethod
    def start(cls, module: nn.Module, heads: int, rank: int) -> Self:
        """Directions drawn from a fixed seed, by which nothing is done yet."""
        projection = find_projection(module, heads)
        rows, width = len(projection.rows), projection.weight(heads).shape[-1]
        down = torch.randn(rank, width, generator=torch.Generator().manual_seed(0)) / width**0.5
        return cls(torch.zeros(rows, rank), down)

    def fold(self) -> Fold:
        """The two factors."""
        return Fold(low_rank=(self.up.detach(), self.down.detach()))

    def describe(self, n_keys: float, entropy: float) -> dict[str, Tensor]:
        """Turned where there is anything; which heads that is depends on their number, which the edge knows."""
        return {"turned": self.up.detach().any().reshape(1)}

    def lengths(self, module: nn.Module, heads: int) -> list[float]:
        """`up` is held against the projection's rows, which are a fifth as long in Gemma 3 as in SmolLM2."""
        with weights_present(module):
            rows = find_projection(module, heads).weight(heads).detach().float()
            return [float(rows.square().sum(-1).mean().sqrt()) / USUAL or 1.0, 1.0]

    def change_layer(self, module: nn.Module, heads: int) -> LayerChange:
        """Add to what the projection gives."""
        projection = find_projection(module, heads)

        def add(x: Tensor, out: Tensor) -> Tensor:
            more = (x @ self.down.to(x).mT) @ self.up.to(x).mT
            return projection.put(out, projection.pick(out) + more)

        return LayerChange(projection.layer, gives=add)


def find_pairs(module: nn.Module, size: int) -> Tensor:
    """Return the number of the pair that each of `size` dimensions belongs to.

    The model's own `rotate_half` tells which two dimensions turn together; those that are not rotated, and all of a
    model without rotations, are on their own.
    """
    rotate: Any = getattr(sys.modules[type(module).__module__], "rotate_half", None)
    rotated = _count_rotated(module, size) if rotate is not None else 0
    partner = torch.arange(size)
    if rotated:
        partner[:rotated] = rotate(torch.arange(1.0, rotated + 1)).abs().long() - 1
    first = torch.minimum(partner, torch.arange(size))
    index: Tensor = first.unique(return_inverse=True)[1]
    return index


def _count_rotated(module: nn.Module, size: int) -> int:
    config: Any = getattr(module, "config", None)
    share = getattr(config, "partial_rotary_factor", None) or getattr(config, "rotary_pct", None)
    parameters = getattr(config, "rope_parameters", None)
    if share is None and isinstance(parameters, dict):
        share = parameters.get("partial_rotary_factor")
    return int(size * float(share or 1.0)) // 2 * 2


def find_projection(module: nn.Module, heads: int) -> Projection:
    """Return where an attention module makes its queries."""
    query = _find(module, heads).query
    assert query is not None
    return query


def _find(module: nn.Module, heads: int) -> AttentionLayout:
    layout = find_layout(module, heads)
    rule = f"{type(module).__name__} must keep its query weights where they are known to edit its query"
    require(layout.query is not None, rule, "a layout of no known family", "Use a form of temperatures, such as log-n")
    return layout
