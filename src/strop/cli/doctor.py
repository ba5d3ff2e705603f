"""`strop doctor`: what is installed here, what is missing, and how to add it."""

from __future__ import annotations

import click

from strop.cli import options, output
from strop.cli.diagnosis import inspect_installation, tabulate


@click.command(epilog=options.examples("strop doctor", "strop doctor --json   # for a bug report"))
@options.json_flag
def command(as_json: bool) -> None:
    """Say what is installed here, what is missing, and how to add it."""
    facts, lacking = inspect_installation()
    if as_json:
        output.show_json({**facts, "missing": lacking})
        return
    for table in tabulate(facts, lacking):
        output.show(table)
