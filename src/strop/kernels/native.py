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
from strop.kernels.layout import four_dimensional
from strop.kernels.mask import Mask
from strop.kernels.native_abi import MOST_COEFFICIENTS, Library, library
from strop.kernels.native_call import Call
from strop.kernels.native_grad import differentiable, hidden_tensor
from strop.kernels.request import Request
from strop.normalisers import AdaptiveTemperature, Entmax15, Normaliser, Softmax, Sparsemax, Temperature, WithSink
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


def reason_not(request: Request) -> str | None:
    """Say what the kernel does not do."""
    query, normaliser = request.query, request.normaliser
    if MISSING is not None:
        return MISSING
    if query.device.type != "cpu":
        return f"the native kernel runs on the CPU, and the query is on {query.device}"
    if query.dtype not in (torch.float32, torch.bfloat16):
        return f"the native kernel takes float32 and bfloat16, and the query is {query.dtype}"
    if _kind(normaliser) is None:
        return f"{type(normaliser).__name__} is neither a temperature, sparsemax nor 1.5-entmax"
    if request.dropout_p:
        return "the native kernel has no dropout"
    if not wants_gradient(request):
        return None
    if torch.compiler.is_compiling():
        return "under torch.compile the native kernel has no gradient"
    missed = hidden_tensor(normaliser)
    return f"{missed} wants a gradient but is not a parameter" if missed else None


def run(request: Request, level: str | None = None) -> tuple[Tensor, RowStats | None]:
    """Attend in one call; where gradients are wanted the backward pass recomputes blocks of rows."""
    forward = partial(_forward, request, level)
    return differentiable(forward, request) if wants_gradient(request) else forward()


def _forward(request: Request, level: str | None) -> tuple[Tensor, RowStats | None]:
    rows, dtype, mask, normaliser = request.query.shape[:-1], request.query.dtype, request.mask, request.normaliser
    query, key, value = _prepared(request)
    kind = _kind(normaliser)
    assert kind is not None
    call = Call(
        four_dimensional(query), four_dimensional(key), four_dimensional(value),
        _flat_mask(mask.keep, rows, request.n_k),
        _flat_mask(None if mask.bias is None else mask.bias.float(), rows, request.n_k), None, None,
        mask.diagonal, request.scale, request.softcap or 0.0, kind, 1.0, [], 0.0, torch.inf, request.return_stats,
    )  # fmt: skip
    if isinstance(normaliser, Temperature):
        call = _tempered(call, normaliser, mask, rows, level)
    out, *stats = call.run(level)
    named = RowStats(*(field.reshape(rows) for field in stats)) if request.return_stats else None
    return out.reshape(*rows, value.shape[-1]).to(dtype), named


def _tempered(call: Call, normaliser: Temperature, mask: Mask, rows: torch.Size, level: str | None) -> Call:
    """Add what the normaliser says of β and of its sink."""
    sink = normaliser.sink()
    call = call._replace(sink=None if sink is None else _flat_rows(sink, rows))
    rule = normaliser.inner if isinstance(normaliser, WithSink) else normaliser
    if isinstance(rule, Softmax) and _answers_as(rule, Softmax):
        return call._replace(constant=float(rule.beta))
    if isinstance(rule, AdaptiveTemperature) and _answers_as(rule, AdaptiveTemperature):
        hold_at = rule.peak if rule.beyond_fit == "hold" else torch.inf
        return call._replace(coefficients=list(rule.coefficients), threshold=rule.threshold, hold_at=hold_at)
    stats = _statistics(call, rows, level) if normaliser.uses == "entropy" else _counted(call, mask, rows)
    return call._replace(beta=_flat_rows(normaliser.inverse_temperature(stats), rows))


def _answers_as(rule: Temperature, kind: type[Temperature]) -> bool:
    """Whether β is the known rule of `kind`, not changed by a subclass, and short enough for the kernel."""
    short = len(getattr(rule, "coefficients", ())) <= MOST_COEFFICIENTS
    return short and type(rule).inverse_temperature is kind.inverse_temperature


def _statistics(call: Call, rows: torch.Size, level: str | None) -> RowStats:
    _, *stats = call._replace(kind="stats", stats=True).run(level)
    return RowStats(*(field.reshape(rows) for field in stats))


def _counted(call: Call, mask: Mask, rows: torch.Size) -> RowStats:
    return RowStats.counted(mask.n_keys(rows[-1], call.key.shape[-2], call.query.device).expand(rows), torch.float32)


def _prepared(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Let the normaliser change the query, in float32; keys and values then follow."""
    query, key, value = request[:3]
    rule = request.normaliser.inner if isinstance(request.normaliser, WithSink) else request.normaliser
    if type(rule).prepare_query is Normaliser.prepare_query:
        return query, key, value
    return request.normaliser.prepare_query(query.float(), request.n_keys).float(), key.float(), value.float()


def _kind(normaliser: Normaliser) -> str | None:
    weights = type(normaliser).weights
    if isinstance(normaliser, Temperature):
        return "softmax" if weights is Temperature.weights else None
    return {Sparsemax.weights: "sparsemax", Entmax15.weights: "entmax15"}.get(weights)


def wants_gradient(request: Request) -> bool:
    """Whether anything that the call is given wants a gradient."""
    if not torch.is_grad_enabled():
        return False
    bias = [] if request.mask.bias is None else [request.mask.bias]
    tensors = [*request[:3], *request.normaliser.parameters(), *bias]
    return any(t.requires_grad for t in tensors) or hidden_tensor(request.normaliser) is not None


def _flat_mask(tensor: Tensor | None, rows: torch.Size, n_k: int) -> Tensor | None:
    return None if tensor is None else four_dimensional(tensor.expand(*rows, n_k))


def _flat_rows(tensor: Rows, rows: torch.Size) -> Tensor:
    return four_dimensional(tensor.detach().to(torch.float32).expand(rows)[..., None])[..., 0]
