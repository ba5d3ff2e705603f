"""What is in force on which module: a stack of frames for every attention module of a model.

`sharpened` and `observed` push one frame each on the modules they concern and take it away on exit. A
module's normaliser is resolved from the outermost frame inwards: an inner frame replaces the outer one on the
heads it names and leaves the rest. Frames are kept by module, never globally, so two models in two threads do
not meet; a module without frames is plain softmax.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from strop.kernels import Request, attend
from strop.kernels.checks import check_rule
from strop.normalisers import Normaliser, Softmax
from strop.normalisers.on_heads import on_heads

Observer = Callable[[str, Request], None]
"""Called with the module's name and what it asks of attention, the normaliser not yet resolved."""

PLAIN = Softmax()
"""What a module without frames runs with, and what a request says before its frames are asked."""

_LOCK = threading.RLock()
_FRAMES: WeakKeyDictionary[nn.Module, tuple[Frame, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Choice:
    """A normaliser for some heads of one module; None means all of them."""

    normaliser: Normaliser
    heads: tuple[int, ...] | None = None


@dataclass(eq=False)
class Frame:
    """One use of `sharpened` or `observed` on one model."""

    names: Mapping[nn.Module, str]
    choices: Mapping[nn.Module, Choice] = field(default_factory=dict)
    observer: Observer | None = None
    calls: int = 0
    forwards: int = 0


@contextmanager
def push(frame: Frame) -> Iterator[None]:
    """Keep a frame on its modules for the length of the block."""
    with _LOCK:
        for module in frame.names:
            _FRAMES[module] = (*_FRAMES.get(module, ()), frame)
    try:
        yield
    finally:
        with _LOCK:
            for module in frame.names:
                _FRAMES[module] = tuple(other for other in _FRAMES[module] if other is not frame)


def answer(module: nn.Module, request: Request) -> Tensor:
    """Run what a module asks for as its frames say, and tell their observers; return the output [B, H, n_q, d_v]."""
    frames = _FRAMES.get(module, ())
    for frame in frames:
        frame.calls += 1
        if frame.observer is not None:
            frame.observer(frame.names[module], request)
    request = request._replace(normaliser=_resolve(module, frames, request.n_heads))
    check_rule(request)
    return attend(request)[0]


def resolve(module: nn.Module, n_heads: int) -> Normaliser:
    """Return the one normaliser that the frames on a module amount to."""
    return _resolve(module, _FRAMES.get(module, ()), n_heads)


def _resolve(module: nn.Module, frames: Sequence[Frame], n_heads: int) -> Normaliser:
    normaliser: Normaliser = PLAIN
    for choice in (frame.choices[module] for frame in frames if module in frame.choices):
        if choice.heads is None:
            normaliser = choice.normaliser
        else:
            normaliser = on_heads(choice.heads, n_heads, choice.normaliser, normaliser)
    return normaliser
