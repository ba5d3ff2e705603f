"""What `strop doctor` says. It needs torch alone, or not even that: who lacks a package must be able to ask."""

from __future__ import annotations

from strop import _extras
from strop.records import Record, provenance
from strop.report.tables import Column, Table


def inspect_installation() -> tuple[Record, dict[str, list[str]]]:
    """Return facts of this installation, and for every extra the packages that it lacks."""
    facts: Record = {**provenance(), **_torch(), "native": _native()}
    return facts, {extra: _extras.missing(packages) for extra, packages in _extras.extras().items()}


def tabulate(facts: Record, lacking: dict[str, list[str]]) -> list[Table]:
    """Return both as tables."""
    rows = [[name.replace("_", " "), value] for name, value in facts.items()]
    added = [
        [extra, f"without {', '.join(packages)}" if packages else "present", _extras.command(extra) if packages else ""]
        for extra, packages in lacking.items()
    ]
    return [
        Table([Column("what", ""), Column("value", "", str, "left")], rows),
        Table([Column("extra"), Column("state"), Column("remedy", "add it with")], added),
    ]


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
        f"{status.level}, {status.threads} thread{'s' * (status.threads != 1)}, {status.team}"
        if status.loaded
        else f"not built: {status.reason}"
    )
