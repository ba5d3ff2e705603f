"""How batch, heads and rows lie: what several implementations need to say in the same way."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

LOGITS_IN_MEMORY = 1 << 22
"""Logits that a block of query rows may hold, about 16 MB in float32."""


def repeat_heads(tensor: Tensor, query: Tensor) -> Tensor:
    """Give grouped keys or values [*batch, h_kv, n, d] the query's number of heads; without heads, nothing changes."""
    if tensor.ndim == 2 or tensor.shape[-3] == query.shape[-3]:
        return tensor
    return tensor.repeat_interleave(query.shape[-3] // tensor.shape[-3], dim=-3)


def broadcasts(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two shapes broadcast against each other."""
    return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(one), reversed(other), strict=False))


def four_dimensional(tensor: Tensor) -> Tensor:
    """[*batch, h, n, d] → [b, h, n, d]; two dimensions are one head, three are heads without a batch."""
    if tensor.ndim == 4:
        return tensor
    return tensor.flatten(0, -4) if tensor.ndim > 4 else tensor[(None,) * (4 - tensor.ndim)]


def row_blocks(query: Tensor, n_k: int) -> list[tuple[int, int]]:
    """First row and end of every block of query rows; one empty block for no rows, so that shapes come out right."""
    n_q = query.shape[-2]
    height = max(1, LOGITS_IN_MEMORY // max(1, n_k * math.prod(query.shape[:-2])))
    return [(start, min(start + height, n_q)) for start in range(0, n_q, height)] or [(0, 0)]


def four_dimensional_mask(table: Tensor, query: Tensor) -> Tensor:
    """Give a mask or bias the dimensions that `four_dimensional` gives the query; sizes of 1 stay where they can."""
    if query.ndim > 4:
        table = table.expand(*query.shape[:-3], *(1, 1, 1)[table.ndim :], *table.shape[-3:])
    return four_dimensional(table)
