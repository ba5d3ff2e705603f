"""Which implementations of attention there are, and how `auto` chooses.

A new one is one file, whose `implementation` says what it can run and runs it, and its entry in IMPLEMENTATIONS. Its
file is imported when it is first tried, which for one that lists other devices than the call's is never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from strop._checks import require, require_known
from strop.errors import ArgumentError
from strop.kernels.implementation import Implementation
from strop.kernels.mask import LazyMask
from strop.kernels.request import Request
from strop.kernels.tracing import autocast_dtype
from strop.normalisers import Normaliser, Temperature, WithSink
from strop.sharpness import RowStats


class Listing(NamedTuple):
    """Where an implementation is, where it can run, and when "auto" takes it.

    Attributes:
        load: Imports its file and returns it. An import statement in a function, since torch.compile can trace that.
        devices: Types of device on which it can run. None: any.
        place: Its place in the order of "auto"; the smallest comes first.
    """

    load: Callable[[], Implementation]
    devices: tuple[str, ...] | None
    place: int


ImplName = Literal["auto", "native", "scaled_query", "triton", "fused_calls", "streaming", "reference", "sharded"]


def _triton() -> Implementation:
    from strop.kernels.triton import implementation

    return implementation


def _native() -> Implementation:
    from strop.kernels.native import implementation

    return implementation


def _scaled_query() -> Implementation:
    from strop.kernels.scaled_query import implementation

    return implementation


def _fused_calls() -> Implementation:
    from strop.kernels.fused_calls import implementation

    return implementation


def _streaming() -> Implementation:
    from strop.kernels.streaming import implementation

    return implementation


def _reference() -> Implementation:
    from strop.kernels.reference import implementation

    return implementation


def _sharded() -> Implementation:
    from strop.kernels.sharded import Sharded

    return Sharded(attend)  # which runs the pieces: implementations do not know each other


IMPLEMENTATIONS = {
    "native": Listing(_native, ("cpu",), 0),
    "scaled_query": Listing(_scaled_query, None, 1),
    "triton": Listing(_triton, ("cuda",), 2),  # ROCm's devices are called cuda too
    "fused_calls": Listing(_fused_calls, ("cpu", "cuda"), 3),
    "streaming": Listing(_streaming, None, 4),
    "reference": Listing(_reference, None, 5),
    "sharded": Listing(_sharded, None, 6),
}
"""Name → where it is and when "auto" takes it."""

_ORDER = tuple(sorted(IMPLEMENTATIONS, key=lambda name: IMPLEMENTATIONS[name].place))


def choose(impl: ImplName, request: Request) -> Implementation:
    """Return the named implementation, or the first that can run the request; raise where it cannot."""
    require_known("impl", impl, ("auto", *IMPLEMENTATIONS))
    if request.shard is not None:
        remedy = "Inside strop.sharded use impl='auto'"
        require(impl in ("auto", "sharded"), "impl must be able to attend over ranks", repr(impl), remedy)
        impl = "sharded"
    order = (impl,) if impl != "auto" else _ORDER
    reason: str | None = None
    for name in order:
        reason = obstacle_to(name, request)
        if reason is None:
            return IMPLEMENTATIONS[name].load()
    raise ArgumentError(
        f"impl={impl!r} cannot run this call: {reason}. Use impl='auto' or another of {', '.join(IMPLEMENTATIONS)}."
    )


def attend(request: Request, impl: ImplName = "auto") -> tuple[Tensor, RowStats | None]:
    """Run a request that has been checked already.

    `strop.attention` checks its arguments and ends here. A mask that exists a few rows at a time is run a block of rows
    at a time, and a model's own sink becomes part of the normaliser.

    Args:
        request: The call.
        impl: "auto", or a name of `IMPLEMENTATIONS`, which runs that one or raises with the reason.

    Returns:
        The output [*batch, n_q, d_v], and the statistics of every row where the request asks for them, else None.

    Examples:
        >>> import torch
        >>> from strop.kernels import Mask, Request, attend
        >>> from strop.normalisers import Softmax
        >>> q, k, v = torch.zeros(2, 1), torch.zeros(4, 1), torch.arange(4.0)[:, None]
        >>> out, stats = attend(Request(q, k, v, Mask(diagonal=0), scale=1.0, normaliser=Softmax()))
        >>> out  # the mean of the values that each row sees
        tensor([[0.0000],
                [0.5000]])
    """
    if autocast_dtype(request.query.device) is not None:  # it has chosen the dtype, and is not to change what is inside
        with torch.autocast(request.query.device.type, enabled=False):
            return attend(request, impl)
    if request.sink is not None:
        request = request._replace(normaliser=_add_sink(request.normaliser, request.sink), sink=None)
    if isinstance(request.mask, LazyMask) and request.shard is None:
        return _attend_lazily(request, request.mask, impl)
    return choose(impl, request).run(request)


def obstacle_to(name: str, request: Request) -> str | None:
    """Say why an implementation cannot run a request; None where it can."""
    devices, here = IMPLEMENTATIONS[name].devices, request.query.device
    if devices is not None and here.type not in devices:
        return f"{name} runs on {' or '.join(devices)}, and the query is on {here}"
    return IMPLEMENTATIONS[name].load().find_obstacle(request)


def _attend_lazily(request: Request, mask: LazyMask, impl: ImplName) -> tuple[Tensor, RowStats | None]:
    """Attend a block of rows at a time, each to the keys that any of its rows may see."""
    require(not request.return_stats, "statistics must be asked of some rows under a lazy mask", "all of them")
    parts = []
    for rows, keys in mask.spans:
        seen = mask.rows(rows.start, rows.stop)
        some = request._replace(
            query=request.query[..., rows, :], key=request.key[..., keys, :], value=request.value[..., keys, :],
            mask=seen.keys(keys),
        )  # fmt: skip
        parts.append(choose(impl, some).run(some)[0])
    return torch.cat(parts, -2), None


def _add_sink(normaliser: Normaliser, sink: Tensor) -> Normaliser:
    """Return the normaliser with a model's own sink [heads] beside its own."""
    require(
        isinstance(normaliser, Temperature),
        "normaliser must be of the temperature family for a model with attention sinks",
        type(normaliser).__name__,
        "Such a model's sink is an extra softmax logit, which other rules do not have",
    )
    assert isinstance(normaliser, Temperature)
    own = normaliser.sink()
    logit = sink[:, None].float() if sink.dtype != torch.float64 else sink[:, None]
    return WithSink(normaliser, logit if own is None else torch.logaddexp(logit, own.to(logit)))
