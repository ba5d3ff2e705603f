"""One block on a model: what stands on it while the block lasts, and what must have happened by its end.

Attention that is left out would make a result half true. So a block refuses, unless it is told `partial=True`:

    before   a model with attention that cannot be reached, among what the user chose
    after    an attention module that was chosen and ran without calling our attention (its code goes another way)
             or a model that ran without one call

A part of the model that did not run is no fault: a vision-language model may be given text alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial as bind
from weakref import WeakSet

from torch import nn

from strop._checks import require
from strop.errors import StateError, StropWarning, UnsupportedError
from strop.patching.cover import group
from strop.patching.frames import Choice, Frame, Observer, Post, push
from strop.patching.interface import switch
from strop.patching.recompute import remember_frames
from strop.patching.sites import Sites, find_owners, find_sites
from strop.patching.stand_in import own_class, stand
from strop.patching.torch_modules import find_encoders, find_role

_TOLD: WeakSet[nn.Module] = WeakSet()
"""Models whose users know that they are patched in part."""


@dataclass(frozen=True)
class Change:
    """What a block does to a model.

    Attributes:
        choices: Attention module → normaliser, by name; the rest stays as it is.
        observer: Told of every call.
        chosen: Names of the modules that the user means, reached or not.
        partial: Accept that some of them are left out.
    """

    choices: Mapping[str, Choice] = field(default_factory=dict)
    observer: Observer | None = None
    chosen: Collection[str] = ()
    partial: bool = False


def check_reached(model: nn.Module, partial: bool) -> None:
    """Raise unless all attention of a model is reached; where `partial` accepts that, warn once."""
    found = find_sites(model)
    why = " and ".join(dict.fromkeys(found.unreached.values()))
    _tell(model, found, list(found.unreached), why, Change(partial=partial), UnsupportedError)


@contextmanager
def apply(model: nn.Module, found: Sites, change: Change) -> Iterator[None]:
    """Put a change on a model for the length of the block."""
    missed = {name: why for name, why in found.unreached.items() if name in change.chosen}
    _tell(model, found, list(missed), " and ".join(dict.fromkeys(missed.values())), change, UnsupportedError)
    frame = Frame(change.observer)
    frame.put_on = bind(_put_on, model, found, change, frame)
    with push(frame), frame.put_on(), remember_frames():
        yield
    silent = [name for name in change.chosen if name in frame.ran and name not in frame.called]
    _tell(model, found, silent, "ran without calling the attention that strop replaces", change, StateError)
    require(
        bool(frame.called) or frame.traced or "" not in frame.ran,
        f"{found.model} must call attention through transformers' interface or torch's function",
        "forward passes without one call",
        "Its outputs in this block are those of the unchanged model",
        StateError,
    )


@contextmanager
def _put_on(model: nn.Module, found: Sites, change: Change, frame: Frame) -> Iterator[None]:
    """Put a frame on every module that it concerns, and make the model call our attention."""
    modules = {"": model} | dict(find_encoders(model)) | found.all
    with ExitStack() as stack:
        for name, module in modules.items():
            role = find_role(module, name in found.through_torch)
            stack.enter_context(stand(module, role, Post(frame, name, change.choices.get(name))))
        stack.enter_context(switch(find_owners(model) if found.by_interface else ()))
        yield


def _tell(
    model: nn.Module,
    found: Sites,
    names: list[str],
    why: str,
    change: Change,
    error: type[UnsupportedError | StateError],
) -> None:
    """Raise, or warn once where the user accepts it, that these modules keep their own softmax."""
    if not names:
        return
    where = ", ".join(group({name: own_class(model.get_submodule(name)).__name__ for name in names}))
    if not change.partial:
        remedy = "partial=True patches the rest and leaves these as they are; strop.coverage(model) shows both"
        require(False, f"every chosen attention module of {found.model} must be reached", f"{where}, which {why}",
                remedy, error)  # fmt: skip
    elif model not in _TOLD:
        _TOLD.add(model)
        warnings.warn(f"{found.model} is patched in part: {where} {why}", StropWarning, stacklevel=4)
