"""One C++ kernel for the CPU: the temperature family, sparsemax and 1.5-entmax, with row statistics as a by-product.

A block of query rows keeps its logits in cache: q·kᵀ, statistics, β, weights, times v (docs/native.md has the picture).
float32 and bfloat16 in, float32 inside. The result does not depend on the number of threads, and repeated calls give
the same bits; the three instruction sets (`level`) differ by rounding. So do gradients, of which the backward pass
keeps to the same price: five products, as plain attention has.

β is a constant, a number for each row computed here from n, or the adaptive polynomial of the entropy, all in one call.
Any other temperature that needs statistics takes two: a statistics pass, then β in Python, with gradients through both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from strop._types import Rows
from strop.kernels.implementation import Implementation
from strop.kernels.native.abi import MOST_COEFFICIENTS, Library, library
from strop.kernels.native.call import Call, Results, execute_gaps
from strop.kernels.native.gradient import call_kernel
from strop.kernels.request import Request
from strop.kernels.shapes import four_dimensional
from strop.kernels.tracing import is_transformed
from strop.normalisers import Temperature
from strop.normalisers.fusion import ConstantBeta, Dense, EntropyBeta, Threshold
from strop.sharpness import GapCounts, RowStats
from strop.sharpness.gaps import BINS, WIDTH

MISSING = None if isinstance(library(), Library) else str(library())
"""Why there is no kernel. Asked once: torch.compile cannot trace how a library is loaded."""


@dataclass(frozen=True)
class Status:
    """Whether the kernel is there, and what it runs on."""

    loaded: bool
    reason: str | None
    level: str | None
    levels: tuple[str, ...]
    threads: int
    team: str | None


def status() -> Status:
    """Say whether the kernel is loaded or why not, its instruction set and its threads."""
    kernel = library()
    if not isinstance(kernel, Library):
        return Status(False, kernel, None, (), torch.get_num_threads(), None)
    team = "torch's OpenMP threads" if kernel.team else "threads of its own"
    return Status(True, None, kernel.levels[-1], kernel.levels, torch.get_num_threads(), team)


class Native(Implementation):
    """One call of the C++ kernel; a second one for statistics where β is an unknown function of them."""

    def find_obstacle(self, request: Request) -> str | None:
        """Say what the kernel does not do."""
        query, normaliser = request.query, request.normaliser
        if MISSING is not None:
            return MISSING
        if query.dtype not in (torch.float32, torch.bfloat16):
            return f"the native kernel takes float32 and bfloat16, and the query is {query.dtype}"
        if isinstance(normaliser.fusion(), Dense):
            return f"{type(normaliser).__name__} is neither a temperature, sparsemax nor 1.5-entmax"
        if request.dropout_p:
            return "the native kernel has no dropout"
        if is_transformed():
            return "the native kernel has no rules for torch.func's transforms"
        return None

    def run(self, request: Request, level: str | None = None) -> tuple[Tensor, RowStats | None]:
        """Attend."""
        rows = request.query.shape[:-1]
        call, stats = _apply(request, _call_of(request), rows, level)
        results = call_kernel(call, level)
        if call.stats:
            stats = _name(results, rows)
        out = results.out if len(rows) == 3 else results.out.reshape(*rows, request.value.shape[-1])
        return out.to(request.query.dtype), stats if request.return_stats else None

    def count_gaps(self, request: Request, level: str | None = None) -> GapCounts:
        """Count every row's gaps in a pass that looks at the logits once, and at no values."""
        call, rows = _call_of(request)._replace(kind="stats", stats=True, train=False), request.query.shape[:-1]
        top, counts = execute_gaps(call, level)
        return GapCounts((top / WIDTH).floor().reshape(rows), counts.reshape(*rows, BINS))


implementation = Native()


def _call_of(request: Request) -> Call:
    """All of a call but what the normaliser declares."""
    mask, rows = request.mask, request.query.shape[:-1]
    query, key, value = _prepare(request)
    return Call(
        four_dimensional(query), four_dimensional(key), four_dimensional(value),
        _flat_mask(mask.keep, rows, request.n_k),
        _flat_mask(None if mask.bias is None else mask.bias.float(), rows, request.n_k),
        diagonal=mask.diagonal, scale=request.scale, softcap=request.softcap or 0.0, stats=request.return_stats,
        train=request.wants_gradient,
    )  # fmt: skip


def _apply(request: Request, call: Call, rows: torch.Size, level: str | None) -> tuple[Call, RowStats | None]:
    """Add what the normaliser declares, a threshold or β and its sink; and return statistics where β needed them."""
    normaliser = request.normaliser
    fusion = normaliser.fusion()
    if isinstance(fusion, Threshold):
        return call._replace(kind="sparsemax" if fusion.alpha == 2.0 else "entmax15"), None
    assert isinstance(normaliser, Temperature)
    sink = normaliser.sink()
    if sink is not None:
        call = call._replace(sink=_flat_rows(sink, rows))
    if isinstance(fusion, ConstantBeta):
        return call._replace(constant=float(fusion.beta)), None
    if isinstance(fusion, EntropyBeta) and len(fusion.coefficients) <= MOST_COEFFICIENTS:
        return call._replace(
            coefficients=list(fusion.coefficients), threshold=fusion.threshold, hold_at=fusion.hold_at,
            detached=fusion.detached,
        ), None  # fmt: skip
    measured: list[RowStats] = []

    def measure() -> RowStats:
        measured.append(_name(call_kernel(call._replace(kind="stats", sink=None, stats=True), level), rows))
        return measured[0]

    beta = normaliser.find_beta(measure, lambda: RowStats.of_counts(_count(request, normaliser), torch.float32))
    call = call._replace(beta=_flat_rows(beta, rows), stats=call.stats and not measured)
    return call, measured[0] if measured else None


def _count(request: Request, normaliser: Temperature) -> Rows:
    """Return how many keys each row may see; any number where β does not depend on it."""
    if normaliser.uses == "constant":
        return torch.full((1,), request.n_k)
    return request.n_keys.expand(request.query.shape[:-1])


def _name(results: Results, rows: torch.Size) -> RowStats:
    return RowStats(*(field.reshape(rows) for field in results[1:6]))


def _prepare(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Let the normaliser change the query, in float32; keys and values then follow."""
    query, key, value = request[:3]
    if not request.normaliser.changes_query:
        return query, key, value
    return request.normaliser.prepare_query(query.float(), request.n_keys).float(), key.float(), value.float()


def _flat_mask(table: Tensor | None, rows: torch.Size, n_k: int) -> Tensor | None:
    """A mask in four dimensions, of size 1 where it is the same for all."""
    if table is None:
        return None
    return four_dimensional(table.expand(*rows, n_k) if len(rows) > 3 else table)


def _flat_rows(tensor: Rows, rows: torch.Size) -> Tensor:
    """β or a sink as float32 numbers [B, H, n_q], broadcast without a copy."""
    flat = tensor.to(torch.float32).expand(rows)
    return flat if len(rows) == 3 else four_dimensional(flat[..., None])[..., 0]
