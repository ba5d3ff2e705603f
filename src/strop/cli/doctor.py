"""`strop doctor`: what is installed here, what is missing, and how to add it."""

from __future__ import annotations

import click

from strop.cli import extras, options, output
from strop.records import Record, provenance
from strop.report.tables import Column, Table


@click.command(epilog=options.examples("strop doctor", "strop doctor --json   # for a bug report"))
@options.json_flag
def command(as_json: bool) -> None:
    """Say what is installed here, what is missing, and how to add it."""
    facts: Record = {**provenance(), **_torch(), "native": _native()}
    lacking = {extra: extras.missing(packages) for extra, packages in extras.extras().items()}
    if as_json:
        output.show_json({**facts, "missing": lacking})
        return
    output.show(_facts(facts))
    output.show(_extras(lacking))


def _facts(facts: Record) -> Table:
    rows = [[name.replace("_", " "), value] for name, value in facts.items()]
    return Table([Column("what", ""), Column("value", "", str, "left")], rows)


def _extras(lacking: dict[str, list[str]]) -> Table:
    rows = [
        [extra, f"without {', '.join(packages)}" if packages else "present", extras.command(extra) if packages else ""]
        for extra, packages in lacking.items()
    ]
    return Table([Column("extra"), Column("state"), Column("remedy", "add it with")], rows)


def _torch() -> Record:
    try:
        import torch
    except ImportError as error:
        return {"torch_loads": f"no: {error}", "threads": None}
    return {"torch_kernels": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}


def _native() -> str:
    try:
        from strop.kernels import native
    except ImportError as error:
        return f"not available: {error}"
    status = native.status()
    return (
        f"{status.level}, {status.threads} threads, {status.team}" if status.loaded else f"not built: {status.reason}"
    )
