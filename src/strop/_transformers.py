"""Make transformers know the attention implementation "strop", without importing transformers.

If transformers' models are loaded already, they are told at once. If not, the import system calls us back when they
are: a finder that finds nothing itself waits for `transformers.modeling_utils` and, once that has run, registers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

AWAITED = "transformers.modeling_utils"


def announce() -> None:
    """Register now, or as soon as transformers is there."""
    if AWAITED in sys.modules:
        _register()
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


def _register() -> None:
    from strop.patching.interface import register

    register()


class _Waiting(MetaPathFinder):
    """Waits for one module."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the others find the awaited module, and register after it has run."""
        if name != AWAITED:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)
        return spec


class _Registering(Loader):
    """Runs a module as its own loader does, then registers."""

    def __init__(self, own: Loader) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As its own loader does."""
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run it, then register."""
        self.own.exec_module(module)
        _register()

    def __getattr__(self, name: str) -> object:
        """Everything else, such as get_source, is its own loader's."""
        return getattr(self.own, name)
