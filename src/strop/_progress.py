"""A progress bar where somebody sees it: on a terminal, in a notebook with ipywidgets. Without rich there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A progress bar, or its silent double."""

    def __init__(self, progress: Progress | None = None, task: TaskID | None = None) -> None:
        self._progress, self._task = progress, task

    def advance(self, steps: float = 1) -> None:
        """Say that some steps are done."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, steps)

    def update(self, *, completed: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Set what is done, how much there is, or the words before the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=completed, total=total, description=_escape(text))

    def say(self, text: str) -> None:
        """Print a line above the bar (on stderr; nothing when silent)."""
        if self._progress is not None:
            self._progress.console.print(text, markup=False, highlight=False)


@contextmanager
def show_progress(text: str, total: float | None, shown: bool | None = None) -> Iterator[Bar]:
    """Show a bar with counts, time spent and time left; `shown` None means: where somebody sees it."""
    if not (_is_seen() if shown is None else shown) or find_spec("rich") is None:
        yield Bar()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left = (TextColumn("·"), TimeRemainingColumn(compact=True), TextColumn("left"))
    with Progress(*columns, *left, console=Console(stderr=True)) as progress:
        yield Bar(progress, progress.add_task(_escape(text) or "", total=total))


def _is_seen() -> bool:
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    in_notebook = hasattr(running, "kernel") and find_spec("ipywidgets") is not None  # rich draws its bars with them
    return sys.stderr.isatty() or in_notebook


def _escape(text: str | None) -> str | None:
    from rich.markup import escape

    return None if text is None else escape(text)
