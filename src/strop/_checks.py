"""Errors at the public door: `<argument> must <rule>, got <actual>. <remedy>.`"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection
from pathlib import Path

from strop.errors import ArgumentError, StropError


def require(holds: bool, rule: str, actual: object, remedy: str = "", error: type[StropError] = ArgumentError) -> None:
    """Raise `error` with one sentence that says the rule, what was given and what to do, unless the rule holds."""
    if not holds:
        raise error(f"{rule}, got {actual}." + (f" {remedy}." if remedy else ""))


def require_number(name: str, value: float, *, above: float = -math.inf) -> float:
    """Return `value` if it is a finite number greater than `above`."""
    finite = isinstance(value, (int, float)) and math.isfinite(value)
    require(finite and value > above, f"{name} must be a finite number" + _greater(above), value)
    return float(value)


def require_distinct(name: str, values: Collection[object]) -> None:
    """Raise unless all values differ: what is counted twice looks like evidence."""
    twice = [value for value in dict.fromkeys(values) if list(values).count(value) > 1]
    require(not twice, f"{name} must not repeat", ", ".join(f"{value} more than once" for value in twice))


def require_known(name: str, value: str, known: Collection[str]) -> None:
    """Raise with the nearest known word, and all of them, unless `value` is one of them."""
    if value not in known:
        raise ArgumentError(f"{name} must be known, got {value!r}. {nearest(value, known)}.")


def nearest(value: str, known: Collection[str]) -> str:
    """Return the remedy for an unknown word: the nearest known one, and all of them."""
    close = difflib.get_close_matches(str(value), list(known), n=1, cutoff=0.5)
    return (f"Did you mean {close[0]!r}? " if close else "") + f"Known: {', '.join(known)}"


def nearest_path(path: Path) -> str:
    """Return the remedy for a path that does not exist: the nearest one that does, or a plain word."""
    at = Path(path.anchor)
    for part in path.parts[1 if path.anchor else 0 :]:
        names = [part] if (at / part).exists() else [each.name for each in at.iterdir()] if at.is_dir() else []
        close = difflib.get_close_matches(part, names, n=1)
        if not close:
            return "Check the path."
        at /= close[0]
    return f"Did you mean {at}?"


def _greater(above: float) -> str:
    return "" if above == -math.inf else f" greater than {above:g}"
