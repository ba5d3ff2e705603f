"""Kernels in Triton for CUDA and ROCm: the temperature family with row statistics, forward and backward.

Each block of query rows makes one pass over its keys where β is known beforehand, and two where β needs the row's
statistics (docs/gpu.md derives what that costs). β is a constant, a number for each row, or the adaptive polynomial of
the entropy, in the kernel. Any other temperature that needs statistics takes two calls: one that measures, then β in
torch, with gradients through both.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from strop._extras import command
from strop._types import Rows
from strop.kernels.implementation import Implementation
from strop.kernels.request import Request
from strop.kernels.shapes import four_dimensional
from strop.normalisers import Temperature
from strop.normalisers.fusion import TEMPERATURES, ConstantBeta, EntropyBeta
from strop.sharpness import RowStats, upcast

if TYPE_CHECKING:
    from strop.kernels.triton.call import KernelCall

MISSING = None if find_spec("triton") else f"triton is not installed ({command('gpu')})"
"""Why there are no kernels. Asked once: torch.compile cannot trace how a package is found."""

WIDEST = 256
"""The largest head size."""

OLDEST = (8, 0)
"""Compute capability of the oldest NVIDIA cards that triton compiles for."""


class Triton(Implementation):
    """One call of the kernels; one more for statistics where β is an unknown function of them."""

    def find_obstacle(self, request: Request) -> str | None:
        """Say what the kernels do not do."""
        query, normaliser = request.query, request.normaliser
        if MISSING is not None:
            return MISSING
        if query.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return f"the triton kernel takes float32, float16 and bfloat16, and the query is {query.dtype}"
        if not isinstance(normaliser.fusion(), TEMPERATURES):
            return f"{type(normaliser).__name__} is not of the temperature family"
        if not all(1 <= size <= WIDEST for size in (query.shape[-1], request.value.shape[-1])):
            return f"the triton kernel takes head sizes from 1 to {WIDEST}"
        if request.dropout_p:
            return "the triton kernel has no dropout"
        if request.return_stats and request.wants_gradient and torch.compiler.is_compiling():
            return "under torch.compile the triton kernel has no gradient of statistics"
        return _find_old_card(query)

    def run(self, request: Request) -> tuple[Tensor, RowStats | None]:
        """Attend."""
        from strop.kernels.triton.call import call_kernels

        rows = request.query.shape[:-1]
        call, stats = _apply(request, _form_call(request), rows)
        out, row_results, extremes, counts = call_kernels(call)
        if request.return_stats and stats is None:
            stats = _name(row_results, extremes, counts, rows)
        return out.reshape(*rows, out.shape[-1]), stats if request.return_stats else None


implementation = Triton()


def _form_call(request: Request) -> KernelCall:
    """Everything but the normaliser's part."""
    from strop.kernels.triton.call import KernelCall

    mask, rows, n_k = request.mask, request.query.shape[:-1], request.n_k
    query = request.query
    if request.normaliser.changes_query:
        query = request.normaliser.prepare_query(upcast(query), request.n_keys).to(query.dtype)
    query, key, value = (_dense_rows(four_dimensional(x)) for x in (query, request.key, request.value))
    keep, bias = (_broadcastable(x, rows, n_k) for x in (mask.keep, mask.bias))
    return KernelCall(
        query, key, value, keep, bias, diagonal=mask.diagonal, scale=request.scale, softcap=request.softcap,
        stats=request.return_stats,
    )  # fmt: skip


def _apply(request: Request, call: KernelCall, rows: torch.Size) -> tuple[KernelCall, RowStats | None]:
    """Add β and the sink, and return the statistics too where β needed them."""
    normaliser = request.normaliser
    assert isinstance(normaliser, Temperature)
    fusion, sink = normaliser.fusion(), normaliser.sink()
    call = call._replace(sink=None if sink is None else _flat_rows(sink, rows, call.query))
    if isinstance(fusion, ConstantBeta):
        return call._replace(constant=float(fusion.beta)), None
    if isinstance(fusion, EntropyBeta):
        return call._replace(
            coefficients=fusion.coefficients, threshold=fusion.threshold, hold_at=fusion.hold_at,
            detached=fusion.detached,
        ), None  # fmt: skip
    measured: list[RowStats] = []

    def measure() -> RowStats:
        measured.append(_measure(call, rows))
        return measured[0]

    beta = normaliser.find_beta(measure, lambda: RowStats.of_counts(request.n_keys.expand(rows), torch.float32))
    stats = measured[0] if measured else None
    return call._replace(beta=_flat_rows(beta, rows, call.query), stats=call.stats and stats is None), stats


def _measure(call: KernelCall, rows: torch.Size) -> RowStats:
    from strop.kernels.triton.call import call_kernels

    _, row_results, extremes, counts = call_kernels(call._replace(value=None, sink=None))
    return _name(row_results, extremes, counts, rows)


def _name(row_results: Tensor, extremes: Tensor, counts: Tensor, rows: torch.Size) -> RowStats:
    logsumexp, mean = row_results[:2]
    return RowStats(counts, extremes[0], extremes[1], logsumexp, mean).map(lambda field: field.reshape(rows))


def _find_old_card(query: Tensor) -> str | None:
    """Say why a card is too old; nothing where there is none to ask, as with fake tensors."""
    if not (query.is_cuda and torch.cuda.is_available()) or torch.version.hip is not None:
        return None
    capability = torch.cuda.get_device_capability(query.device)
    too_old = f"triton compiles for compute capability {OLDEST} and later, and {query.device} has {capability}"
    return too_old if capability < OLDEST else None


def _dense_rows(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 or tensor.shape[-1] <= 1 else tensor.contiguous()


def _broadcastable(table: Tensor | None, rows: torch.Size, n_k: int) -> Tensor | None:
    """A mask in four dimensions, of size 1 where it is the same for all."""
    if table is None:
        return None
    table = table.expand(*rows, n_k) if len(rows) > 3 else table
    return four_dimensional(table)


def _flat_rows(tensor: Rows, rows: torch.Size, query: Tensor) -> Tensor:
    """β or a sink as float32 numbers [B, H, n_q], broadcast without a copy."""
    return tensor.to(query.device, torch.float32).expand(rows).reshape(query.shape[:-1])
