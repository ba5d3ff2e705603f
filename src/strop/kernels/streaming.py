"""The definition, a few query rows at a time: O(n·block) memory, any device, every normaliser whose rows stand alone.

A block of rows holds its logits against all keys, so sparse and hard normalisers run as they are defined. The height
of a block is chosen so that its logits take about 16 MB. When gradients are wanted each block is computed again in
the backward pass instead of being kept; only what dropout left is, a byte for each weight.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from strop.kernels.dense import attend_block, draw_dropout
from strop.kernels.implementation import Implementation
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.kernels.shapes import repeat_heads, row_blocks
from strop.kernels.tracing import is_known, is_transformed, may_look
from strop.sharpness import RowStats, upcast


class Streaming(Implementation):
    """A block of rows at a time."""

    def find_obstacle(self, request: Request) -> str | None:
        """Rows that depend on each other cannot be taken a few at a time, nor can rows whose number is open."""
        if not request.normaliser.rowwise:
            return f"{type(request.normaliser).__name__} needs all rows at once"
        known = is_known(*request.query.shape[:-1], request.n_k)
        return None if known else "how many blocks there are depends on sizes that the compiler leaves open"

    def run(self, request: Request) -> tuple[Tensor, RowStats | None]:
        """Attend block by block."""
        query, mask = request.query, request.mask
        keys, values = (upcast(repeat_heads(tensor, query)) for tensor in (request.key, request.value))
        careful = not may_look(values) or not bool(values.isfinite().all())

        def attend(
            query: Tensor, key: Tensor, value: Tensor, mask: Mask, kept: Tensor | None
        ) -> tuple[Tensor, RowStats | None]:
            block = request._replace(query=query, key=key, value=value, mask=mask)
            return attend_block(block, kept=kept, careful=careful)

        again = request.wants_gradient and not is_transformed()  # torch.func knows no checkpoints
        attend_again = partial(checkpoint, attend, use_reentrant=False) if again else attend
        parts = []
        for start, stop in row_blocks(query, request.n_k):
            rows = upcast(query[..., start:stop, :])
            kept = draw_dropout(rows, request.n_k, request.dropout_p)  # once, for both passes
            parts.append(attend_again(rows, keys, values, mask.rows(start, stop), kept))
        out = torch.cat([part.to(query.dtype) for part, _ in parts], dim=-2)
        if not request.return_stats:
            return out, None
        stats = [rows for _, rows in parts if rows is not None]
        return out, RowStats(*(torch.cat(fields, dim=-1) for fields in zip(*stats, strict=True)))


implementation = Streaming()
