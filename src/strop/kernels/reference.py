"""The definition: the whole n_q × n_k matrix, written out (see `dense`). Slow, and right for every normaliser."""

from __future__ import annotations

import torch
from torch import Tensor

from strop.kernels.dense import block
from strop.kernels.layout import repeat_heads
from strop.kernels.request import Request
from strop.sharpness import RowStats, upcast


def reason_not(request: Request) -> str | None:
    """Nothing that passes the door is beyond the definition."""
    return None


def run(request: Request) -> tuple[Tensor, RowStats | None]:
    """Attend with everything in memory at once."""
    query = request.query
    key, value = (upcast(repeat_heads(tensor, query)) for tensor in (request.key, request.value))
    careful = torch.compiler.is_compiling() or not bool(value.isfinite().all())
    out, stats = block(request._replace(query=upcast(query), key=key, value=value), careful=careful)
    return out.to(query.dtype), stats
