"""What a verb prints: results on stdout, progress on stderr (silent under --json and off a terminal)."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from strop._progress import LOUDNESS, show_progress
from strop.ranks import join_ranks, ranks_here
from strop.records import Record, finite
from strop.report.layout import wrap

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


def columns(stream: TextIO | None = None) -> int | None:
    """Return how many columns the terminal has on which stdout, or another stream, is seen; None where nobody looks."""
    return shutil.get_terminal_size().columns if (stream or sys.stdout).isatty() else None


def show(table: Table) -> None:
    """Print a table on stdout, as wide as the terminal; away from a terminal, as wide as it needs to be."""
    width = columns()
    say("")
    click.echo(table.text(width, None if width is None else lambda row, i, text: _emphasise(table, row, i, text)))
    left_out = [] if width is None else table.dropped(width)
    if left_out:
        say(f"Left out at {width} columns: {'; '.join(left_out)}. A wider terminal or --json shows them.")


def _emphasise(table: Table, row: int, column: int, text: str) -> str:
    if row < 0:
        return click.style(text, bold=True)
    return click.style(text, fg="green", bold=True) if (row, column) in table.best else text


def show_json(value: object) -> None:
    """Print one JSON document on stdout. Not-finite floats become null."""
    click.echo(json.dumps(finite(value), ensure_ascii=False, allow_nan=False))


def remark(text: str) -> None:
    """Print a remark on stderr, out of the way of results, unless there is none or --quiet was asked for."""
    if text and LOUDNESS.get() >= 0:
        click.echo(wrap(text, columns(sys.stderr)), err=True)


def say(text: str) -> None:
    """Print a sentence on stdout."""
    click.echo(wrap(text, columns()))


def records_json(records: list[Record], **more: object) -> None:
    """Print {"records": […], …more} on stdout."""
    show_json({**more, "records": records})


def join_in() -> bool:
    """Share the verb with the ranks that torchrun started; return whether we write and speak for all of them."""
    verb = click.get_current_context()
    ranks = verb.with_resource(join_ranks())
    if not ranks.leads:
        LOUDNESS.set(-1)
        verb.with_resource(redirect_stdout(io.StringIO()))
    return ranks.leads


def show_comparison(gain: Comparison, out: Path | None, as_json: bool, **more: object) -> None:
    """Write the report of a comparison and print what was found."""
    if not ranks_here().leads:
        return
    assert gain.folder is not None
    report = gain.report(out or gain.folder / "report.html")
    if as_json:
        found = {"overall": gain.overall, "answers": gain.answers, "prose": gain.prose, "verdict": gain.summary}
        found |= {"by_size": gain.by_size} if gain.by_size else {}
        show_json({**found, "report": str(report), **more})
        return
    for table in ([gain.size_table()] if gain.by_size else []) + [gain.table()]:
        show(table)
    for table in gain.more_tables():
        show(table)
    say(gain.summary)
    say(f"\nReport: {report}")
