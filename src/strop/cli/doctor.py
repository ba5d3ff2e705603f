"""`strop doctor`: what is installed here, what is missing, and how to add it."""

from __future__ import annotations

import importlib

import click

from strop.cli import extras, options, output
from strop.records import Record, provenance


@click.command(epilog=options.examples("strop doctor", "strop doctor --json   # for a bug report"))
@options.json_flag
def command(as_json: bool) -> None:
    """Say what is installed here, what is missing, and how to add it."""
    facts: Record = {**provenance(), **_torch(), "native": _native()}
    lacking = {extra: extras.missing(extra) for extra in extras.EXTRAS}
    if as_json:
        output.show_json({**facts, "extras": {extra: not names for extra, names in lacking.items()}})
        return
    _print(facts, lacking)


def _print(facts: Record, lacking: dict[str, list[str]]) -> None:
    from strop.report.tables import Column, Table

    rows = [[name.replace("_", " "), value] for name, value in facts.items()]
    output.show(Table([Column("what", ""), Column("value", "", str, "left")], rows))
    state = [
        [extra, "present" if not names else "missing", "" if not names else extras.command(extra)]
        for extra, names in lacking.items()
    ]
    output.show(Table([Column("extra"), Column("state"), Column("remedy", "add it with")], state))


def _torch() -> Record:
    try:
        import torch
    except ImportError as error:
        return {"torch_loads": f"no: {error}", "threads": None}
    return {"torch_kernels": torch.backends.cpu.get_cpu_capability(), "threads": torch.get_num_threads()}


def _native() -> str:
    try:
        native = importlib.import_module("strop.kernels.native")
    except ImportError as error:
        return f"not available: {error}"
    return str(native.status())
