"""What a verb prints: results on stdout, progress on stderr (silent under --json and off a terminal)."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strop._progress import show_progress
from strop.records import Record, finite

if TYPE_CHECKING:
    from strop.evaluation import Comparison
    from strop.report.tables import Table


def bars(as_json: bool) -> bool:
    """Whether to show progress bars: on a terminal, and not under --json."""
    return not as_json and sys.stderr.isatty()


def phases(*, quiet: bool = False) -> Callable[[str, float], AbstractContextManager[Callable[[float], None]]]:
    """Return what shows a piece of work as a bar: phase(title, total) → a context that is told how much is done."""

    @contextmanager
    def phase(title: str, total: float) -> Iterator[Callable[[float], None]]:
        with show_progress(title, total, bars(quiet)) as bar:
            yield lambda done: bar.update(completed=done)
            bar.update(completed=total)

    return phase


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


def show_comparison(gain: Comparison, out: Path | None, as_json: bool, **more: object) -> None:
    """Write the report of a comparison and print what was found."""
    assert gain.folder is not None
    report = gain.report(out or gain.folder / "report.html")
    if as_json:
        found = {"overall": gain.overall, "answers": gain.answers, "prose": gain.prose, "verdict": gain.summary}
        show_json({**found, "report": str(report), **more})
        return
    show(gain.table())
    show(gain.prose_table())
    say(gain.summary)
    say(f"\nReport: {report}")
