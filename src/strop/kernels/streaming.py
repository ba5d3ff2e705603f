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

from strop.kernels.dense import attend_block
from strop.kernels.implementation import Implementation
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.kernels.shapes import may_look, repeat_heads, row_blocks
from strop.sharpness import RowStats, upcast


class Streaming(Implementation):
    """A block of rows at a time."""

    def find_obstacle(self, request: Request) -> str | None:
        """Rows that depend on each other cannot be taken a few at a time."""
        return None if request.normaliser.rowwise else f"{type(request.normaliser).__name__} needs all rows at once"

    def run(self, request: Request) -> tuple[Tensor, RowStats | None]:
        """Attend block by block."""
        query, mask = request.query, request.mask
        keys, values = (upcast(repeat_heads(tensor, query)) for tensor in (request.key, request.value))
        careful = may_look(values) and not bool(values.isfinite().all())

        def attend(query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, RowStats | None]:
            return attend_block(request._replace(query=query, key=key, value=value, mask=mask), careful=careful)

        attend_again = partial(checkpoint, attend, use_reentrant=False) if request.wants_gradient else attend
        parts = [
            attend_again(upcast(query[..., start:stop, :]), keys, values, mask.rows(start, stop))
            for start, stop in row_blocks(query, request.n_k)
        ]
        out = torch.cat([part.to(query.dtype) for part, _ in parts], dim=-2)
        if not request.return_stats:
            return out, None
        stats = [rows for _, rows in parts if rows is not None]
        return out, RowStats(*(torch.cat(fields, dim=-1) for fields in zip(*stats, strict=True)))


implementation = Streaming()
