"""What stays after Ctrl-C. Only files that were written since the verb began are spoken of."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import click

_KEPT = "strop.kept"

CONTINUE = "The same command continues"


class _Promise(NamedTuple):
    """What would be kept, where, which files prove it, since when, and what to do with it."""

    what: str
    place: Path
    pattern: str
    since: float
    then: str

    @property
    def holds(self) -> bool:
        files = self.place.glob(self.pattern) if self.pattern else [self.place]
        return any(file.exists() and file.stat().st_mtime > self.since - 0.1 for file in files)


def keep(what: str, place: Path, pattern: str = "", then: str = CONTINUE) -> None:
    """From now on, an interruption says that `what` is kept in `place`, if a file of that pattern is new there."""
    made = click.get_current_context().find_root().meta.setdefault(_KEPT, [])
    made.append(_Promise(what, place, pattern, time.time(), then))


def describe_kept(ctx: click.Context) -> str:
    """Say what is kept, and what to do with it."""
    promises: list[_Promise] = ctx.find_root().meta.get(_KEPT, [])
    held = [one for one in promises if one.holds]
    if not held:
        return "Nothing new was finished, and nothing is half-written."
    return f"Kept: {'; '.join(f'{one.what} in {one.place}' for one in held)}. {held[-1].then}."
