"""How batch, heads and rows lie: what several implementations need to say in the same way."""

from __future__ import annotations

import torch
from torch import Tensor

LOGITS_IN_MEMORY = 1 << 22
"""Logits that a block of query rows may hold, about 16 MB in float32."""


def repeat_heads(tensor: Tensor, query: Tensor) -> Tensor:
    """Give grouped keys or values [*batch, h_kv, n, d] the query's number of heads; without heads, nothing changes."""
    return tensor if tensor.ndim == 2 else tensor.repeat_interleave(query.shape[-3] // tensor.shape[-3], dim=-3)


def four_dimensional(tensor: Tensor) -> Tensor:
    """[*batch, h, n, d] → [b, h, n, d]; two dimensions are one head, three are heads without a batch."""
    return tensor.flatten(0, -4) if tensor.ndim > 4 else tensor[(None,) * (4 - tensor.ndim)]


def row_blocks(query: Tensor, n_k: int) -> list[tuple[int, int]]:
    """First row and end of every block of query rows; one empty block for no rows, so that shapes come out right."""
    n_q = query.shape[-2]
    height = max(1, LOGITS_IN_MEMORY // max(1, n_k * query.shape[:-2].numel()))
    return [(start, min(start + height, n_q)) for start in range(0, n_q, height)] or [(0, 0)]


def four_dimensional_mask(table: Tensor, query: Tensor) -> Tensor:
    """Give a mask or bias the dimensions that `four_dimensional` gives the query; sizes of 1 stay where they can."""
    if query.ndim > 4:
        table = table.expand(*query.shape[:-3], *(1, 1, 1)[table.ndim :], *table.shape[-3:])
    return four_dimensional(table)


def may_look(tensor: Tensor) -> bool:
    """Whether numbers may decide what runs: a device would have to be waited for, and traced ones are not there."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()
