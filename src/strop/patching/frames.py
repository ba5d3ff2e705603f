"""What is in force on which module: frames, each with its post on every attention module that it concerns.

`sharpened` and `observed` put one frame each on a model and take it away on exit. A module's normaliser is resolved
from the outermost post inwards: an inner one replaces the outer one on the heads it names and leaves the rest. Posts
are kept on the module, never globally, so two models do not meet; a module without posts is plain softmax.

A frame belongs to the context that entered its block: a thread, or a task of asyncio. A call uses the frames of its
own context, so one model may be used in two threads under two rules. A thread that entered no block for the module (a
streamer's, autograd's, a data loader's) uses the frames of the one that did, and is refused where several did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.errors import StateError
from strop.kernels import Request, attend
from strop.kernels.checks import check_rule
from strop.normalisers import Normaliser, Softmax
from strop.normalisers.on_heads import on_heads
from strop.patching.stand_in import StandIn, standing

Observer = Callable[[str, Request], None]
"""Called with the module's name and what it asks of attention, the normaliser not yet resolved."""

PLAIN = Softmax()
"""What a module without frames runs with, and what a request says before its frames are asked."""


@dataclass(eq=False)
class Frame:
    """One use of `sharpened` or `observed` on one model.

    Attributes:
        observer: Told of every call.
        outer: The frames in force where this one was entered.
        put_on: Puts the frame on its model, for the length of a block.
        live: Whether its block is open.
        ran: Names of the modules that ran.
        called: Names of those that called our attention.
        traced: Whether torch.compile has read a call; compiled calls are not counted.
    """

    observer: Observer | None = None
    outer: tuple[Frame, ...] = ()
    put_on: Callable[[], AbstractContextManager[None]] = nullcontext
    live: bool = False
    ran: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    traced: bool = False


@dataclass(eq=False)
class Choice:
    """A normaliser for some heads of one module; None means all of them."""

    normaliser: Normaliser
    heads: tuple[int, ...] | None = None
    _made: dict[tuple[int, Normaliser], Normaliser] = field(default_factory=dict)

    def over(self, outer: Normaliser, n_heads: int) -> Normaliser:
        """Return this normaliser on its heads and the outer one on the rest."""
        if self.heads is None:
            return self.normaliser
        key = (n_heads, outer)
        if key not in self._made:
            self._made[key] = on_heads(self.heads, n_heads, self.normaliser, outer)
        return self._made[key]


@dataclass(eq=False)
class Post:
    """What a frame is on one module."""

    frame: Frame
    name: str
    choice: Choice | None = None


_HERE: ContextVar[tuple[Frame, ...]] = ContextVar("strop_frames", default=())


@contextmanager
def push(frame: Frame) -> Iterator[None]:
    """Make a frame one of this context, inside those that are, for the length of the block."""
    frame.outer = _HERE.get()
    _HERE.set((*frame.outer, frame))
    frame.live = True
    try:
        yield
    finally:
        frame.live = False
        _HERE.set(tuple(other for other in _HERE.get() if other is not frame))


@contextmanager
def enter_again(frames: Sequence[Frame]) -> Iterator[None]:
    """Make these the frames of this context for the length of the block, and put those back that are over."""
    before = _HERE.get()
    with ExitStack() as stack:
        for frame in frames:
            if not frame.live:
                stack.enter_context(frame.put_on())
        _HERE.set(tuple(frames))
        stack.callback(_HERE.set, before)
        yield


def frames_here() -> tuple[Frame, ...]:
    """Return the frames of this context."""
    return _HERE.get()


def find_posts(module: nn.Module) -> tuple[Post, ...]:
    """Return what is in force on a module for this context, the outermost first."""
    posts: tuple[Post, ...] = standing(module)
    if len(posts) < 2:
        return posts
    if not torch.compiler.is_compiling():  # which cannot ask for the context
        here = _HERE.get()
        own = tuple(post for post in posts if post.frame in here)
        if own:
            return own
    nested = all(outer.frame in inner.frame.outer for outer, inner in pairwise(posts))
    require(
        nested,
        "a thread without a block of its own must find one rule on the model",
        f"{len(posts)} on {posts[0].name or type(module).__name__}, of several threads",
        "Enter `sharpened` in this thread too",
        StateError,
    )
    return posts


def answer(module: nn.Module, request: Request) -> Tensor:
    """Run what a module asks for as its frames say, and tell their observers; return the output [B, H, n_q, d_v]."""
    posts = find_posts(module)
    for post in posts:
        _note(post, request)
    request = request._replace(normaliser=resolve(posts, request.n_heads))
    check_rule(request)
    return attend(request)[0]


def resolve(posts: Sequence[Post], n_heads: int) -> Normaliser:
    """Return the one normaliser that the posts on a module amount to."""
    normaliser: Normaliser = PLAIN
    for post in posts:
        if post.choice is not None:
            normaliser = post.choice.over(normaliser, n_heads)
    return normaliser


def _note(post: Post, request: Request) -> None:
    if torch.compiler.is_compiling():
        post.frame.traced = True
    else:
        post.frame.called.add(post.name)
    if post.frame.observer is not None and post.frame.live:
        post.frame.observer(post.name, request)


class Site(StandIn):
    """The role of every module that a frame is on: its runs are noted."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, then note it."""
        out = super().__call__(*args, **kwargs)
        if not torch.compiler.is_compiling():
            for post in find_posts(self):
                post.frame.ran.add(post.name)
        return out
