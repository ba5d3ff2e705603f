"""Another input or output of a single layer, for the length of a block: how edits of the query and output scales act.

As with attention, nothing is put into the layer, so that copies made inside the block are plain (stand_in.py), and
layers that are run again in the backward pass are changed again (recompute.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from strop.patching.frames import Frame, Post, find_posts, push
from strop.patching.recompute import remember_frames
from strop.patching.stand_in import StandIn, stand


class LayerChange(NamedTuple):
    """What to do to a layer; None: nothing.

    Attributes:
        layer: The layer.
        given: From what it is given to what it shall be given.
        gives: From what it is given, and what it gives of that, to what it shall give.
    """

    layer: nn.Module
    given: Callable[[Tensor], Tensor] | None = None
    gives: Callable[[Tensor, Tensor], Tensor] | None = None


@contextmanager
def change_layers(changes: Mapping[str, LayerChange]) -> Iterator[None]:
    """Change layers, by any names, for the length of the block."""
    frame = Frame()
    frame.put_on = partial(_put_on, changes, frame)
    with push(frame), frame.put_on(), remember_frames():
        yield


@contextmanager
def _put_on(changes: Mapping[str, LayerChange], frame: Frame) -> Iterator[None]:
    with ExitStack() as stack:
        for name, change in changes.items():
            stack.enter_context(stand(change.layer, _Changed, _Change(frame, name, change=change)))
        yield


@dataclass(eq=False, kw_only=True)
class _Change(Post):
    change: LayerChange


class _Changed(StandIn):
    """The role of a layer that is changed."""

    def __call__(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        changes = [post.change for post in find_posts(self) if isinstance(post, _Change)]
        for change in changes:
            x = x if change.given is None else change.given(x)
        out: Tensor = super().__call__(x, *args, **kwargs)
        for change in changes:
            out = out if change.gives is None else change.gives(x, out)
        return out
