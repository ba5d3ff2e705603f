"""The definition: the whole n_q × n_k matrix, written out (see `dense`). Slow, and right for every normaliser."""

from __future__ import annotations

from torch import Tensor

from strop.kernels.dense import attend_block, draw_dropout
from strop.kernels.implementation import Implementation
from strop.kernels.request import Request
from strop.kernels.shapes import repeat_heads
from strop.kernels.tracing import may_look
from strop.sharpness import RowStats, upcast


class Reference(Implementation):
    """Everything in memory at once."""

    def find_obstacle(self, request: Request) -> str | None:
        """Nothing that passes the door is beyond the definition."""
        return None

    def run(self, request: Request) -> tuple[Tensor, RowStats | None]:
        """Attend."""
        query = request.query
        key, value = (upcast(repeat_heads(tensor, query)) for tensor in (request.key, request.value))
        whole = request._replace(query=upcast(query), key=key, value=value)
        kept = draw_dropout(whole.query, request.n_k, request.dropout_p)
        careful = not may_look(value) or not bool(value.isfinite().all())
        out, stats = attend_block(whole, careful=careful, kept=kept)
        return out.to(query.dtype), stats


implementation = Reference()
