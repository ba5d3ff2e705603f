"""What a verb prints: results on stdout, progress on stderr (silent under --json and off a terminal)."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from strop.records import Record, finite

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from strop.report.tables import Table


class Bar:
    """A progress bar, or its silent double."""

    def __init__(self, progress: Progress | None, task: TaskID | None) -> None:
        self._progress, self._task = progress, task

    def advance(self, steps: float = 1) -> None:
        """Say that some steps are done."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, steps)

    def update(self, *, completed: float | None = None, total: float | None = None, text: str | None = None) -> None:
        """Set what is done, how much there is, or the words before the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=completed, total=total, description=_plain(text))

    def say(self, text: str) -> None:
        """Print a line above the bar (on stderr; nothing when silent)."""
        if self._progress is not None:
            self._progress.console.print(text, markup=False, highlight=False)


@contextmanager
def progress(text: str, total: float | None, *, quiet: bool = False) -> Iterator[Bar]:
    """Show a bar with counts, time spent and time left. `quiet` is the verb's --json."""
    if quiet or not sys.stderr.isatty():
        yield Bar(None, None)
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
    with Progress(*columns, *left, console=Console(stderr=True)) as shown:
        yield Bar(shown, shown.add_task(_plain(text) or "", total=total))


def show(table: Table) -> None:
    """Print a table on stdout; away from a terminal it is as wide as it needs to be."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table.rich())
        return
    wide = Console(width=10_000, file=io.StringIO(), record=True)
    wide.print(table.rich())
    for line in wide.export_text().splitlines():
        click.echo(line.rstrip())


def show_json(value: object) -> None:
    """Print one JSON document on stdout. Not-finite floats become null."""
    click.echo(json.dumps(finite(value), ensure_ascii=False, allow_nan=False))


def note(text: str) -> None:
    """Print a remark on stderr, out of the way of results."""
    click.echo(text, err=True)


def say(text: str) -> None:
    """Print a sentence on stdout."""
    click.echo(text)


def records_json(records: list[Record], **more: object) -> None:
    """Print {"records": […], …more} on stdout."""
    show_json({**more, "records": records})


def _plain(text: str | None) -> str | None:
    from rich.markup import escape

    return None if text is None else escape(text)
