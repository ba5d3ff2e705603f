"""Gradients of a native call: the forward pass is the kernel's, the backward pass recomputes rows a few at a time.

A block of rows is computed again by the definition (`dense`), with all that β and the normaliser's parameters depend
on, and differentiated by torch; so memory stays O(n) and every path has its gradient, β's dependence on the entropy
included. Second derivatives are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from strop.errors import StateError
from strop.kernels.dense import attend_block
from strop.kernels.request import Request
from strop.kernels.shapes import repeat_heads, row_blocks
from strop.sharpness import RowStats, upcast

Forward = Callable[[], tuple[Tensor, RowStats | None]]


def differentiate(forward: Forward, request: Request) -> tuple[Tensor, RowStats | None]:
    """Run `forward` so that its results carry gradients to query, key, value, bias and learned parameters."""
    learned = [p for p in request.normaliser.parameters() if p.requires_grad]
    apply: Callable[..., tuple[Tensor, ...]] = _Recomputed.apply
    out, *stats = apply(forward, request, *request[:3], request.mask.bias, *learned)
    return out, RowStats(*stats) if request.return_stats else None


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Forward, request: Request, *inputs: Tensor | None) -> tuple[Tensor, ...]:
        out, stats = forward()
        nothing = torch.empty(0)  # the inputs are saved below, where a checkpoint can drop them
        ctx.request = request._replace(query=nothing, key=nothing, value=nothing, mask=replace(request.mask, bias=None))
        ctx.save_for_backward(*inputs)
        if stats is None:
            return (out,)
        ctx.mark_non_differentiable(stats.n_keys)
        return (out, *stats)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph: the result would carry no gradient of its own, silently
            raise StateError("The native kernel has no second derivatives. Use impl='streaming' for them.")
        wanted = ctx.needs_input_grad[2:]
        saved = ctx.saved_tensors  # once: a checkpoint unpacks them a single time
        totals = _add_blocks(_block_gradients(ctx.request, saved, grads, wanted))
        cast = (t if t is None else t.to(x.dtype) for t, x in zip(totals, saved, strict=True))
        return (None, None, *cast)


def _add_blocks(blocks: Iterator[list[Tensor | None]]) -> list[Tensor | None]:
    """Rows of the query's gradient stand side by side, all others sum over blocks; not in place, as vmap demands."""
    of_rows: list[Tensor] = []
    totals: list[Tensor | None] = []
    for query, *others in blocks:
        of_rows += [] if query is None else [query]
        pairs = zip(totals, others, strict=True) if totals else ((None, other) for other in others)
        totals = [a if b is None else b if a is None else a + b for a, b in pairs]
    return [torch.cat(of_rows, -2) if of_rows else None, *totals]


def _block_gradients(
    request: Request, inputs: tuple[Tensor, ...], grads: tuple[Tensor, ...], wanted: tuple[bool, ...]
) -> Iterator[list[Tensor | None]]:
    careful = not bool(inputs[2].isfinite().all())
    for rows in (slice(*ends) for ends in row_blocks(inputs[0], inputs[1].shape[-2])):
        yield _gradients_of_rows(request, inputs, grads, wanted, rows, careful)


def _gradients_of_rows(
    request: Request,
    inputs: tuple[Tensor, ...],
    grads: tuple[Tensor, ...],
    wanted: tuple[bool, ...],
    rows: slice,
    careful: bool,
) -> list[Tensor | None]:
    query, key, value, bias = (
        _leaf(x, w) for x, w in zip((inputs[0][..., rows, :], *inputs[1:4]), wanted, strict=False)
    )
    assert query is not None
    assert key is not None
    assert value is not None
    with torch.enable_grad():
        mask = replace(request.mask, bias=bias).rows(rows.start, rows.stop)
        keys, values = (repeat_heads(upcast(x), query) for x in (key, value))
        again = request._replace(query=upcast(query), key=keys, value=values, mask=mask)
        out, stats = attend_block(again, careful=careful, kept=None)
    results = [out, *(stats[1:] if stats is not None else ())]
    cotangents = [grads[0][..., rows, :].to(out.dtype), *(g[..., rows] for g in grads[2:])]
    flows = [(r, c) for r, c in zip(results, cotangents, strict=True) if r.requires_grad]
    leaves = [x for x, w in zip((query, key, value, bias, *inputs[4:]), wanted, strict=True) if w and x is not None]
    found = iter(torch.autograd.grad([r for r, _ in flows], leaves, [c for _, c in flows], allow_unused=True))
    return [next(found) if w else None for w in wanted]


def _leaf(tensor: Tensor | None, wanted: bool) -> Tensor | None:
    return None if tensor is None else tensor.detach().requires_grad_(wanted)
