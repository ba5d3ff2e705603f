"""The definition: the whole n_q × n_k matrix, written out (see `dense`). Slow, and right for every normaliser."""

from __future__ import annotations

from torch import Tensor

from strop.kernels.dense import block
from strop.kernels.layout import repeat_heads
from strop.kernels.mask import Mask
from strop.normalisers import Normaliser
from strop.sharpness import RowStats, upcast


def reason_not(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, *, normaliser: Normaliser, **settings: object
) -> str | None:
    """Nothing that passes the door is beyond the definition."""
    return None


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
    """Attend with everything in memory at once."""
    key, value = repeat_heads(key, query), repeat_heads(value, query)
    out, stats = block(
        upcast(query),
        upcast(key),
        upcast(value),
        mask,
        scale=scale,
        normaliser=normaliser,
        softcap=softcap,
        dropout_p=dropout_p,
        careful=True,
        return_stats=return_stats,
    )
    return out.to(query.dtype), stats
