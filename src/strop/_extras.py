"""Which packages each extra brings, as the installed package says itself, and what to type when one is missing."""

from __future__ import annotations

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

from strop.errors import MissingExtraError
from strop.records.origin import version


def extras() -> dict[str, list[str]]:
    """Return every extra but `dev` with the packages that it adds, those of extras that it includes among them."""
    named = [(found[2], found[1]) for line in _requirements() if (found := _REQUIREMENT.match(line))]
    direct = {extra: [package for name, package in named if name == extra] for extra, _ in named if extra != "dev"}
    return {extra: _whole(extra, direct) for extra in direct}


def missing(packages: list[str]) -> list[str]:
    """Return those packages that are not installed."""
    return [package for package in packages if version(package) is None]


def command(extra: str) -> str:
    """Return the command that adds an extra, to a clone of the repository or to an installed package.

    Naming torch's version keeps pip from fetching another build of it.
    """
    clone = find_clone()
    package = f"'strop[{extra}]'" if clone is None else f"-e '{os.path.relpath(clone)}[{extra}]'"
    torch = version("torch")
    return f"pip install {package}" + (f" 'torch=={torch.partition('+')[0]}'" if torch else "")


def find_clone() -> Path | None:
    """Return the clone of the repository that is being run, if it is one."""
    folder = Path(__file__).parents[2]
    return folder if (folder / "pyproject.toml").is_file() else None


def need(*wanted: str) -> None:
    """Raise before anything is begun unless these extras are installed."""
    found = extras()
    for extra in wanted:
        for package in missing(found.get(extra, [])):
            raise tell_missing(package)


def tell_missing(module: str) -> MissingExtraError:
    """Return the error that says which package is missing and what adds it."""
    return MissingExtraError(f"this needs the package {module!r}. {remedy(module)}", name=module)


def remedy(module: str) -> str:
    """Return what to do about a module that could not be imported."""
    package = module.partition(".")[0].replace("_", "-").lower()
    holding = {extra: packages for extra, packages in extras().items() if package in packages}
    extra = min(holding, key=lambda name: len(holding[name]), default=None)
    return f"Add it with: {command(extra) if extra else f'pip install {package}'}"


_REQUIREMENT = re.compile(r"""([\w.-]+(?:\[\w+\])?).*;.*extra == ["']([\w-]+)["']""")


def _requirements() -> list[str]:
    """The package's requirements, as it was installed or, where it was not, as a clone's pyproject.toml has them."""
    try:
        return metadata.requires("strop") or []
    except metadata.PackageNotFoundError:
        clone = find_clone()
    if clone is None:
        return []
    groups = tomllib.loads((clone / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [f'{line}; extra == "{extra}"' for extra, lines in groups.items() for line in lines]


def _whole(extra: str, direct: dict[str, list[str]]) -> list[str]:
    out: list[str] = []
    for package in direct.get(extra, []):
        inner = re.fullmatch(r"strop\[(\w+)\]", package)
        out += _whole(inner[1], direct) if inner else [package.lower()]
    return sorted(set(out))
