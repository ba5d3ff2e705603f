"""One C++ kernel for the CPU: the temperature family, sparsemax and 1.5-entmax, with row statistics as a by-product.

A block of query rows keeps its logits in cache: q·kᵀ, statistics, β, weights, times v (docs/native.md has the picture).
float32 and bfloat16 in, float32 inside. The result does not depend on the number of threads, and repeated calls give
the same bits; the three instruction sets (`level`) differ by rounding.

β is a constant, a number for each row computed here from n, or the adaptive polynomial of the entropy, all in one call.
Any other temperature that needs statistics takes two: a statistics pass, then β in Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from strop._types import Rows
from strop.kernels.implementation import Implementation
from strop.kernels.native.abi import MOST_COEFFICIENTS, Library, library
from strop.kernels.native.call import Call
from strop.kernels.native.gradient import differentiate
from strop.kernels.request import Request, find_hidden_tensor
from strop.kernels.shapes import four_dimensional
from strop.kernels.tracing import is_transformed
from strop.normalisers import Temperature
from strop.normalisers.fusion import ConstantBeta, Dense, EntropyBeta, Threshold
from strop.sharpness import RowStats

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
        if not request.wants_gradient:
            return None
        if torch.compiler.is_compiling():
            return "under torch.compile the native kernel has no gradient"
        missed = find_hidden_tensor(normaliser)
        return f"{missed} wants a gradient but is not a parameter" if missed else None

    def run(self, request: Request, level: str | None = None) -> tuple[Tensor, RowStats | None]:
        """Attend; where gradients are wanted the backward pass recomputes blocks of rows."""
        forward = partial(_forward, request, level)
        return differentiate(forward, request) if request.wants_gradient else forward()


implementation = Native()


def _forward(request: Request, level: str | None) -> tuple[Tensor, RowStats | None]:
    rows, dtype, mask = request.query.shape[:-1], request.query.dtype, request.mask
    query, key, value = _prepare(request)
    call = Call(
        four_dimensional(query), four_dimensional(key), four_dimensional(value),
        _flat_mask(mask.keep, rows, request.n_k),
        _flat_mask(None if mask.bias is None else mask.bias.float(), rows, request.n_k),
        diagonal=mask.diagonal, scale=request.scale, softcap=request.softcap or 0.0, stats=request.return_stats,
    )  # fmt: skip
    out, *stats = _apply(request, call, rows, level).run(level)
    named = RowStats(*(field.reshape(rows) for field in stats)) if request.return_stats else None
    out = out if out.shape[:-1] == rows else out.reshape(*rows, value.shape[-1])
    return out if out.dtype == dtype else out.to(dtype), named


def _apply(request: Request, call: Call, rows: torch.Size, level: str | None) -> Call:
    """Add what the normaliser declares: a threshold, or β and its sink."""
    normaliser = request.normaliser
    fusion = normaliser.fusion()
    if isinstance(fusion, Threshold):
        return call._replace(kind="sparsemax" if fusion.alpha == 2.0 else "entmax15")
    assert isinstance(normaliser, Temperature)
    sink = normaliser.sink()
    call = call._replace(sink=None if sink is None else _flat_rows(sink, rows))
    if isinstance(fusion, ConstantBeta):
        return call._replace(constant=float(fusion.beta))
    if isinstance(fusion, EntropyBeta) and len(fusion.coefficients) <= MOST_COEFFICIENTS:
        return call._replace(coefficients=list(fusion.coefficients), threshold=fusion.threshold, hold_at=fusion.hold_at)
    beta = normaliser.find_beta(
        lambda: _measure(call, rows, level),
        lambda: RowStats.of_counts(request.n_keys.expand(rows), torch.float32),
    )
    return call._replace(beta=_flat_rows(beta, rows))


def _measure(call: Call, rows: torch.Size, level: str | None) -> RowStats:
    _, *stats = call._replace(kind="stats", stats=True).run(level)
    return RowStats(*(field.reshape(rows) for field in stats))


def _prepare(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Let the normaliser change the query, in float32; keys and values then follow."""
    query, key, value = request[:3]
    if not request.normaliser.changes_query:
        return query, key, value
    return request.normaliser.prepare_query(query.float(), request.n_keys).float(), key.float(), value.float()


def _flat_mask(tensor: Tensor | None, rows: torch.Size, n_k: int) -> Tensor | None:
    return None if tensor is None else four_dimensional(tensor.expand(*rows, n_k))


def _flat_rows(tensor: Rows, rows: torch.Size) -> Tensor:
    return four_dimensional(tensor.detach().to(torch.float32).expand(rows)[..., None])[..., 0]
