"""A package that strop imports and that is not installed is told with the command that adds it, wherever that happens.

The import system asks its finders in turn. Ours is the last, so it is asked only for what nobody has found, and it
answers only imports that strop's own code makes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


def watch() -> None:
    """Become the last finder."""
    if not any(isinstance(finder, _Last) for finder in sys.meta_path):
        sys.meta_path.append(_Last())


class _Last(MetaPathFinder):
    """Finds nothing."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Raise where strop imports a package that is not there."""
        if path is None and _importer().partition(".")[0] == "strop":
            from strop._extras import tell_missing

            raise tell_missing(name)


def _importer() -> str:
    """Return the name of the module whose import is under way; who only asks whether one is there is importlib.util."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in ("importlib", "importlib._bootstrap"):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))
