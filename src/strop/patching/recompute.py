"""Gradient checkpointing: what the backward pass runs again runs under the frames of its forward pass.

torch.utils.checkpoint keeps a function and calls it again during the backward pass, which may come after the block has
ended, in another block, or in a thread of autograd. While a block is open, the two places where torch keeps the
function keep it together with the frames in force; when it is called again, these are put back for its length. That
serves transformers' `gradient_checkpointing_enable` and calls of one's own, reentrant or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils import checkpoint

from strop.patching.frames import enter_again, frames_here
from strop.patching.torch_modules import attend_again, attending_modules

_LOCK = threading.RLock()
_OPEN: list[None] = []
"""One for each open block."""

_FORWARD: Callable[..., Any] = checkpoint.CheckpointFunction.forward
_OWN = {name: getattr(checkpoint, name) for name in ("CheckpointFunction", "_checkpoint_without_reentrant_generator")}


@contextmanager
def remember_frames() -> Iterator[None]:
    """Let torch.utils.checkpoint remember the frames in force for the length of the block."""
    with _LOCK:
        _OPEN.append(None)
        vars(checkpoint).update(_OURS)
    try:
        yield
    finally:
        with _LOCK:
            _OPEN.pop()
            if not _OPEN:
                vars(checkpoint).update(_OWN)


def _keep(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the frames that are in force now."""
    frames, modules = frames_here(), attending_modules()
    if not frames:
        return function

    def again(*args: Any, **kwargs: Any) -> Any:
        with enter_again(frames), attend_again(modules):
            return function(*args, **kwargs)

    return again


class _Reentrant(checkpoint.CheckpointFunction):
    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], *rest: Any) -> Any:
        """As torch's, with the frames."""
        return _FORWARD(ctx, _keep(run_function), *rest)


def _without_reentrance(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return _OWN["_checkpoint_without_reentrant_generator"](_keep(function), *args, **kwargs)


_OURS = dict(zip(_OWN, (_Reentrant, _without_reentrance), strict=True))
