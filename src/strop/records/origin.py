"""Where and how records were made: versions, machine, instruction set, commit, date."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from strop._version import __version__
from strop.records.files import Record


def provenance() -> Record:
    """Return a flat record of this installation and machine (from package metadata: no torch is imported)."""
    return {
        "strop": __version__,
        "torch": version("torch"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _cpuinfo("model name") or platform.processor() or None,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "instruction_set": instruction_set(),
        "commit": _commit(Path(__file__).parent),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def version(package: str) -> str | None:
    """Return an installed package's version, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def instruction_set() -> str:
    """Return the widest vector instruction set that this processor reports, or its architecture."""
    flags = (_cpuinfo("flags") or _cpuinfo("Features") or "").split()
    names = {"avx512f": "AVX-512", "avx2": "AVX2", "sve": "SVE", "asimd": "NEON"}
    return next((name for flag, name in names.items() if flag in flags), platform.machine() or "unknown")


def _cpuinfo(field: str) -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == field), None)


def _commit(folder: Path) -> str | None:
    """Commit of the checkout that this code runs from, with "+" for uncommitted changes; None outside one."""
    try:
        _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}{'+' if changed else ''}"


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
    ).stdout.strip()
