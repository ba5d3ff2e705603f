"""The definition, a few query rows at a time: O(n·block) memory, any device, every normaliser whose rows stand alone.

A block of rows holds its logits against all keys, so sparse and hard normalisers run as they are defined. The height
of a block is chosen so that its logits take about 16 MB. When gradients are wanted each block is computed again in
the backward pass instead of being kept.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from strop.kernels.dense import block
from strop.kernels.layout import repeat_heads, row_blocks
from strop.kernels.mask import Mask
from strop.normalisers import Normaliser
from strop.sharpness import RowStats, upcast


def reason_not(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, *, normaliser: Normaliser, **settings: object
) -> str | None:
    """Rows that depend on each other cannot be taken a few at a time."""
    return None if normaliser.rowwise else f"{type(normaliser).__name__} needs all rows at once"


def run(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    *,
    scale: float,
    normaliser: Normaliser,
    softcap: float | None,
    dropout_p: float,
    return_stats: bool,
) -> tuple[Tensor, RowStats | None]:
    """Attend block by block."""
    key, value = repeat_heads(key, query), repeat_heads(value, query)
    keys, values = upcast(key), upcast(value)
    careful = not torch.compiler.is_compiling() and not bool(values.isfinite().all())
    attend = partial(
        block,
        scale=scale,
        normaliser=normaliser,
        softcap=softcap,
        dropout_p=dropout_p,
        careful=careful,
        return_stats=return_stats,
    )
    if torch.is_grad_enabled():
        attend = partial(checkpoint, attend, use_reentrant=False)
    parts = [
        attend(upcast(query[..., start:stop, :]), keys, values, mask.rows(start, stop))
        for start, stop in row_blocks(query, key.shape[-2])
    ]
    out = torch.cat([part.to(query.dtype) for part, _ in parts], dim=-2)
    if not return_stats:
        return out, None
    stats = [rows for _, rows in parts if rows is not None]
    return out, RowStats(*(torch.cat(fields, dim=-1) for fields in zip(*stats, strict=True)))
