"""Which kernels run for a call, on which grid. Tensors go in as pointers and strides; results are made here."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import triton
from torch import Tensor

from strop.kernels.triton.backward import CARRIED, backward_of_keys, backward_of_rows
from strop.kernels.triton.forward import attend_blocks
from strop.kernels.triton.logits import ROWS, Plane
from strop.kernels.triton.mend import mend_blocks
from strop.kernels.triton.split import attend_pieces, measure_pieces, merge_pieces
from strop.kernels.triton.tiles import Tiles, count_pieces, find_tiles

if TYPE_CHECKING:
    from strop.kernels.triton.call import KernelCall

INTERPRETED = bool(triton.knobs.runtime.interpret)
"""Whether the kernels were read for triton's interpreter, which takes CPU tensors and gets bfloat16 wrong."""

ON_ROCM = torch.version.hip is not None

PIECE_ALIGNMENT = 16
"""A piece's length is a multiple of this, so that keys are loaded in whole vectors."""

Results = tuple[Tensor, Tensor, Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def make_results(call: KernelCall) -> Results:
    """Make output, row results, largest and smallest logits and counts, to be filled."""
    query, value = call.query, call.value
    rows = query.shape[:-1]
    measured = rows if _measures(call) else (0, *rows[1:])
    out = query.new_empty(*rows, 0 if value is None else value.shape[-1])
    row_results = query.new_empty(ROWS, *rows, dtype=torch.float32)
    return out, row_results, row_results.new_empty(2, *measured), query.new_empty(measured, dtype=torch.int64)


def make_gradients(call: KernelCall, adds: bool) -> Gradients:
    """Make the gradients of query, key, value and, where wanted, bias, and what rows carry, to be filled."""
    query = call.query
    d_query, d_key = (x.new_empty(x.shape) for x in (query, call.key))
    d_value = query.new_empty(0 if call.value is None else call.value.shape)
    d_bias = query.new_zeros(call.bias.shape if adds and call.bias is not None else 0, dtype=torch.float32)
    return d_query, d_key, d_value, d_bias, d_bias.new_zeros(CARRIED, *query.shape[:-1])


def forward(call: KernelCall) -> Results:
    """Run the forward pass."""
    if INTERPRETED and torch.bfloat16 in _dtypes(call):
        out, *others = forward(_in_float32(call))
        return out.to(call.query.dtype), others[0], others[1], others[2]
    results = make_results(call)
    if call.query.numel() == 0:
        return results
    if call.key.shape[-2] == 0:
        results[0].zero_()
    pieces = count_pieces(call.query.shape, call.key.shape)
    with _device_of(call.query):
        if pieces == 1:
            _attend(call, *results)
        else:
            _attend_in_pieces(call, *results, pieces)
        if call.value is not None and call.key.shape[-2] > 0:
            _mend(call, *results[:2])
    return results


def backward(
    call: KernelCall, out: Tensor, rows: Tensor, d_out: Tensor | None, d_rows: Tensor | None, all_keys: bool, adds: bool
) -> Gradients:
    """Run the backward pass; without `all_keys` that of the rows alone, and that of the bias where it `adds`."""
    if INTERPRETED and torch.bfloat16 in _dtypes(call):
        wide = None if d_out is None else d_out.float()
        *three, d_bias, carried = backward(_in_float32(call), out.float(), rows, wide, d_rows, all_keys, adds)
        d_query, d_key, d_value = (x.to(call.query.dtype) for x in three)
        return d_query, d_key, d_value, d_bias, carried
    grads = make_gradients(call, adds)
    if call.query.numel() == 0 or call.key.numel() == 0:
        grads[0].zero_()
        return grads
    d_out, d_rows = (None if x is None else x.contiguous() for x in (d_out, d_rows))
    with _device_of(call.query):
        _differentiate_rows(call, out, d_out, rows, d_rows, grads)
        if all_keys:
            _differentiate_keys(call, d_out, rows, d_rows, grads)
    return grads


def _attend(call: KernelCall, out: Tensor, rows: Tensor, extremes: Tensor, counts: Tensor) -> None:
    tiles = _find_tiles(attend_blocks, call)
    given = (*_inputs(call), _plane(call.beta), _plane(call.sink), _plane(out), rows, extremes, counts)
    _launch(attend_blocks, _blocks_of_rows(call, tiles), tiles, *given, *_numbers(call), call.constant, _curve(call),
            *_counts(call), **_sizes(call, tiles), MEASURE=_measures(call))  # fmt: skip


def _attend_in_pieces(
    call: KernelCall, out: Tensor, rows: Tensor, extremes: Tensor, counts: Tensor, n_pieces: int
) -> None:
    b, h, n_q, _ = call.query.shape
    h_kv, n_k, _ = call.key.shape[1:]
    length = triton.cdiv(n_k, n_pieces * PIECE_ALIGNMENT) * PIECE_ALIGNMENT
    measured, sums = (rows.new_empty(n, n_pieces, b, h, n_q) for n in (5 if _measures(call) else 0, 2))
    mixed = rows.new_empty(n_pieces, *out.shape)
    inputs, numbers, shape = _inputs(call), _numbers(call), (*_counts(call), length)
    if _measures(call):
        tiles = _find_tiles(measure_pieces, call)
        grid = n_pieces, triton.cdiv(n_q * h // h_kv, tiles.rows), b * h_kv
        q, k, _, keep, bias = inputs
        _launch(measure_pieces, grid, tiles, q, k, keep, bias, measured, *numbers, *shape, **_sizes(call, tiles))
    tiles = _find_tiles(attend_pieces, call)
    grid = n_pieces if call.value is not None else 1, triton.cdiv(n_q * h // h_kv, tiles.rows), b * h_kv
    _launch(attend_pieces, grid, tiles, *inputs, _plane(call.beta), measured, sums, mixed, rows, extremes, counts,
            *numbers, call.constant, _curve(call), *shape, **_sizes(call, tiles), MEASURE=_measures(call),
            PIECES=n_pieces)  # fmt: skip
    if call.value is not None:
        _launch(merge_pieces, (b * h * n_q,), tiles, sums, mixed, _plane(call.sink), _plane(out), rows, n_q,
                *_counts(call), DV=out.shape[-1], BDV=_pad(out.shape[-1]), PIECES=n_pieces)  # fmt: skip


def _mend(call: KernelCall, out: Tensor, rows: Tensor) -> None:
    tiles = _find_tiles(mend_blocks, call)
    _launch(mend_blocks, _blocks_of_rows(call, tiles), tiles, *_inputs(call), _plane(out), rows, *_numbers(call),
            *_counts(call), **_sizes(call, tiles))  # fmt: skip


def _differentiate_rows(
    call: KernelCall, out: Tensor, d_out: Tensor | None, rows: Tensor, d_rows: Tensor | None, grads: Gradients
) -> None:
    tiles = _find_tiles(backward_of_rows, call)
    given = (*_inputs(call), _plane(call.sink), _plane(out), _plane(d_out), rows, d_rows, _plane(grads[0]), grads[4])
    _launch(backward_of_rows, _blocks_of_rows(call, tiles), tiles, *given, *_numbers(call), _curve(call),
            *_counts(call), **_sizes(call, tiles), SLOPE=_slopes(call, d_out))  # fmt: skip


def _differentiate_keys(
    call: KernelCall, d_out: Tensor | None, rows: Tensor, d_rows: Tensor | None, grads: Gradients
) -> None:
    b, h_kv, n_k, _ = call.key.shape
    tiles = _find_tiles(backward_of_keys, call)
    d_key, d_value, d_bias = (_plane(x) for x in grads[1:4])
    given = (*_inputs(call), _plane(d_out), rows, d_rows, d_key, d_value, d_bias, grads[4])
    _launch(backward_of_keys, (triton.cdiv(n_k, tiles.keys) * b * h_kv,), tiles, *given, *_numbers(call),
            *_counts(call), **_sizes(call, tiles), SLOPE=_slopes(call, d_out))  # fmt: skip


def _launch(kernel: Any, grid: tuple[int, ...], tiles: Tiles, *given: Any, **constants: Any) -> None:
    kernel[grid](*given, **constants, num_warps=tiles.warps, num_stages=tiles.stages)


def _find_tiles(kernel: Any, call: KernelCall) -> Tiles:
    widest = max(call.query.shape[-1], 0 if call.value is None else call.value.shape[-1])
    return find_tiles(kernel.__name__, widest, call.query.element_size(), ON_ROCM)


def _blocks_of_rows(call: KernelCall, tiles: Tiles) -> tuple[int]:
    b, h, n_q, _ = call.query.shape
    return (triton.cdiv(n_q, tiles.rows) * b * h,)


def _inputs(call: KernelCall) -> tuple[Plane, ...]:
    return tuple(_plane(x) for x in (call.query, call.key, call.value, call.keep, call.bias))


def _numbers(call: KernelCall) -> tuple[Any, ...]:
    n_q, n_k = call.query.shape[-2], call.key.shape[-2]
    return n_q, n_k, n_k if call.diagonal is None else call.diagonal, call.scale, call.softcap


def _counts(call: KernelCall) -> tuple[int, int]:
    """Query heads, and rows of all heads."""
    return call.query.shape[1], call.query.shape[:-1].numel()


def _sizes(call: KernelCall, tiles: Tiles) -> dict[str, int]:
    d, d_v = call.query.shape[-1], call.query.shape[-1] if call.value is None else call.value.shape[-1]
    group = call.query.shape[1] // max(1, call.key.shape[1])
    return {"GROUP": group, "D": d, "DV": d_v, "BD": _pad(d), "BDV": _pad(d_v), "BM": tiles.rows, "BN": tiles.keys}


def _pad(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())


def _measures(call: KernelCall) -> bool:
    """Whether the call makes the pass that measures."""
    return call.stats or len(call.coefficients) > 0 or call.value is None


def _curve(call: KernelCall) -> tuple[float, float, tuple[float, ...]] | None:
    return (call.threshold, call.hold_at, tuple(call.coefficients)) if call.coefficients else None


def _slopes(call: KernelCall, d_out: Tensor | None) -> bool:
    return d_out is not None and len(call.coefficients) > 0 and not call.detached


def _plane(tensor: Tensor | None) -> Plane:
    """A tensor [B, H, n, d] or [B, H, n] with stride 0 where it has size 1; absent for None or for nothing in it."""
    if tensor is None or tensor.numel() == 0:
        return Plane(None, 0, 0, 0, 0)
    batch, head, row, *col = (
        0 if size == 1 else step for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return Plane(tensor, batch, head, row, col[0] if col else 0)


def _device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    return torch.cuda.device_of(tensor) if tensor.is_cuda else nullcontext()


def _dtypes(call: KernelCall) -> list[torch.dtype]:
    return [field.dtype for field in call if isinstance(field, Tensor)]


def _in_float32(call: KernelCall) -> KernelCall:
    query, key, value, bias = (None if x is None else x.float() for x in (call.query, call.key, call.value, call.bias))
    assert query is not None
    assert key is not None
    return call._replace(query=query, key=key, value=value, bias=bias)
