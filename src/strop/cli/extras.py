"""Which packages each extra brings, as the installed package says itself, and what to type when one is missing."""

from __future__ import annotations

import re
from importlib import metadata

from strop.records.origin import version


def extras() -> dict[str, list[str]]:
    """Return every extra but `dev` with the packages that it adds, those of extras that it includes among them."""
    try:
        lines = metadata.requires("strop") or []
    except metadata.PackageNotFoundError:  # run from a folder, not installed
        lines = []
    named = [(found[2], found[1]) for line in lines if (found := _REQUIREMENT.match(line))]
    direct = {extra: [package for name, package in named if name == extra] for extra, _ in named if extra != "dev"}
    return {extra: _whole(extra, direct) for extra in direct}


def missing(packages: list[str]) -> list[str]:
    """Return those packages that are not installed."""
    return [package for package in packages if version(package) is None]


def command(extra: str) -> str:
    """Return the command that adds an extra. Naming torch's version keeps pip from fetching another build of it."""
    return f"pip install 'strop[{extra}]' 'torch=={(version('torch') or '2.13.0').partition('+')[0]}'"


def remedy(module: str) -> str:
    """Return what to do about a module that could not be imported."""
    package = module.partition(".")[0].replace("_", "-").lower()
    extra = next((extra for extra, packages in extras().items() if package in packages), None)
    return f"Add it with: {command(extra) if extra else f'pip install {package}'}"


_REQUIREMENT = re.compile(r"""([\w.-]+(?:\[\w+\])?).*;.*extra == ["']([\w-]+)["']""")


def _whole(extra: str, direct: dict[str, list[str]]) -> list[str]:
    out: list[str] = []
    for package in direct.get(extra, []):
        inner = re.fullmatch(r"strop\[(\w+)\]", package)
        out += _whole(inner[1], direct) if inner else [package.lower()]
    return sorted(set(out))
