"""A progress bar where somebody sees it: on a terminal, in a notebook with ipywidgets. Without rich there is none.

`LOUDNESS` is set by the command line: −1 shows nothing, 1 writes plain lines where no bar can be seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, ProgressColumn, Task, TaskID

WIDE = 120
"""Columns of a terminal from which a bar is drawn."""

LOUDNESS: ContextVar[int] = ContextVar("loudness", default=0)


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


class Lines(Bar):
    """Progress as plain lines on stderr, one whenever its words or its total change."""

    def __init__(self, text: str, total: float | None) -> None:
        super().__init__()
        self._text, self._total = text, total
        self.say(text)

    def update(self, *, completed: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Write a line if there is something new to say."""
        if (text or self._text, total or self._total) != (self._text, self._total):
            self._text, self._total = text or self._text, total or self._total
            done = "" if completed is None or self._total is None else f" ({completed:g} of {self._total:g})"
            self.say(f"{self._text}{done}")

    def say(self, text: str) -> None:
        """Write a line."""
        sys.stderr.write(f"{text}\n")


@contextmanager
def show_progress(text: str, total: float | None, shown: bool | None = None) -> Iterator[Bar]:
    """Show a bar with counts, time spent and time left; `shown` None means: where somebody sees it."""
    seen = (_is_seen() if shown is None else shown) and find_spec("rich") is not None and LOUDNESS.get() >= 0
    if not seen:
        yield Lines(text, total) if LOUDNESS.get() > 0 else Bar()
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(file=sys.stderr)  # this one, also while somebody has it redirected
    with Progress(*_columns(console.width), console=console) as progress:
        yield Bar(progress, progress.add_task(_escape(text) or "", total=total))


def _columns(width: int) -> list[ProgressColumn]:
    """Words that wrap at spaces, and times; a bar where there is room; counts and what is left once that is known."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    class Known(ProgressColumn):
        """A column that is empty while nobody knows how much there is to do."""

        def __init__(self, column: ProgressColumn) -> None:
            super().__init__()
            self.column = column

        def render(self, task: Task) -> RenderableType:
            return "" if task.total is None else self.column(task)

    words = TextColumn("{task.description}", table_column=Column(no_wrap=False, overflow="fold"))
    numbers = MofNCompleteColumn(), TextColumn("·"), TimeRemainingColumn(compact=True), TextColumn("left")
    counts, *left = (Known(column) for column in numbers)
    return [words, *([BarColumn()] if width >= WIDE else []), counts, TimeElapsedColumn(), *left]


def _is_seen() -> bool:
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    in_notebook = hasattr(running, "kernel") and find_spec("ipywidgets") is not None  # rich draws its bars with them
    return sys.stderr.isatty() or in_notebook


def _escape(text: str | None) -> str | None:
    from rich.markup import escape

    return None if text is None else escape(text)
