"""Classes that stand in for a module's own while something of ours is on it, so that nothing has to be put into it.

A module that is patched changes its class to one of the same name, made of a role and its own class, and keeps what is
on it in one attribute. When the last thing is taken off, both go. torch itself does so in parametrizations and FSDP.

A copy is plain: copy.copy, copy.deepcopy, pickle and torch.save get the module's own class and none of the attribute,
so the copy loads where strop is not installed. Hooks and wrapped methods would be copied with the module.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    _Module = nn.Module
else:
    _Module = object  # a role is a module only together with a module's own class

KEY = "_strop"
_LOCK = threading.RLock()


class StandIn(_Module):
    """What every role has: copies are of the module's own class, and new instances too."""

    _own: type[nn.Module]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance of the module's own class."""
        return cls._own(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Say how to make a plain copy."""
        reduced: Any = super().__reduce_ex__(protocol)
        make, arguments, state, *rest = reduced
        if make.__name__ == "__newobj__":  # of which pickle asks that it makes the present class
            make = object.__new__
        arguments = tuple(self._own if argument is type(self) else argument for argument in arguments)
        if isinstance(state, dict):
            state = {name: value for name, value in state.items() if name != KEY}
        return (make, arguments, state, *rest)


class Fixed:
    """An attribute of a role that reads as one value; what is set is kept for afterwards."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self.value

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self.name] = value


def standing(module: nn.Module) -> tuple[Any, ...]:
    """Return what stands on a module, the outermost first."""
    found: tuple[Any, ...] = module.__dict__.get(KEY, ())
    return found


@contextmanager
def stand(module: nn.Module, role: type, item: object) -> Iterator[None]:
    """Keep an item on a module, which plays the role, for the length of the block."""
    own: type = own_class(module)
    with _LOCK:
        before = standing(module)
        module.__dict__[KEY] = (*before, item)
        if not before:
            module.__class__ = _make_class(role, own)
    try:
        yield
    finally:
        with _LOCK:
            left = tuple(other for other in standing(module) if other is not item)
            module.__dict__[KEY] = left
            if not left:
                module.__class__ = own
                del module.__dict__[KEY]


def own_class(module: nn.Module) -> type[nn.Module]:
    """Return the class that a module has when nothing stands on it."""
    kind = type(module)
    return kind._own if issubclass(kind, StandIn) else kind


@cache
def _make_class(role: type, own: type) -> type[Any]:
    same = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__, "_own": own}
    return type(own.__name__, (role, own), same)
