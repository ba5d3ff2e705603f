"""What a newcomer meets must hold together: `make check` runs this.

It fails on two public classes or functions of one name, on a public name without an example, on an argument that is
undocumented or documented with another default than it has, on an error that is none of ours, and on a document that
is in no navigation.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "strop"

PACKAGES = (
    "strop", "strop.sharpness", "strop.normalisers", "strop.kernels", "strop.patching", "strop.pretrained",
    "strop.probing", "strop.diagnosing", "strop.calibration", "strop.evaluation", "strop.exporting", "strop.tasks",
    "strop.studies.retrieval", "strop.studies.arena", "strop.studies.clrs", "strop.studies.rivals",
    "strop.studies.problems", "strop.studies.networks",
)  # fmt: skip
"""Packages whose `__all__` is the face."""

ALIKE = {"command"}
"""Names that every module of a kind has: each verb's click command."""

BUILT_IN = {"ValueError", "TypeError", "RuntimeError", "KeyError", "Exception", "NotImplementedError"}


def find_names_used_twice() -> Iterator[str]:
    """Public classes and functions of one name in two modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                overload = any("overload" in ast.unparse(one) for one in node.decorator_list)
                places[node.name] += [] if overload else [place]
    for name, found in places.items():
        if len(found) > 1 and name not in ALIKE:
            yield f"{name} must be one thing, got {', '.join(found)}"


def find_foreign_errors() -> Iterator[str]:
    """Errors raised on purpose that a user cannot catch as StropError."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            raised = node.exc.func if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) else None
            if isinstance(raised, ast.Name) and raised.id in BUILT_IN:
                yield f"{path.relative_to(ROOT)}:{raised.lineno} must raise an error of strop.errors, got {raised.id}"


def find_faults_of_the_face() -> Iterator[str]:
    """Public names without an example, and arguments that are not documented as they are."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = [name for name in module.__all__ if not name.startswith("__")]
        extra = set(dir(module)) - set(module.__all__)
        if extra:
            yield f"dir({package}) must show public names only, got {', '.join(sorted(extra))}"
        for name in names:
            found = getattr(module, name)
            if inspect.isclass(found) or inspect.isfunction(found):
                yield from _check(f"{package}.{name}", found)


def _check(name: str, found: Any) -> Iterator[str]:
    text = inspect.getdoc(found) if not inspect.isclass(found) else inspect.cleandoc(vars(found).get("__doc__") or "")
    if ">>> " not in (text or ""):
        yield f"{name} must show an example in its docstring"
    if not inspect.isfunction(found):
        return
    told = dict(re.findall(r"^ {4}\*{0,2}(\w+): ((?:.*\n?)(?: {8}.*\n?)*)", _section(text or "", "Args"), re.M))
    parameters = inspect.signature(found).parameters
    for argument in set(parameters) ^ set(told):
        yield f"{name} must document its arguments and no others, got {argument}"
    for argument, words in told.items():
        stated = re.search(r"[Dd]efault:? `?(None|True|False|-?\d[\d.e-]*\d|\d|\([^)]*\)|[\"'][^\"']*[\"'])", words)
        if stated and argument in parameters and stated[1].strip("\"'") != str(parameters[argument].default):
            actual = parameters[argument].default
            yield f"{name}({argument}) must be documented with its default {actual!r}, got {stated[1]}"


def _section(text: str, title: str) -> str:
    found = re.search(rf"^{title}:\n((?: {{4}}.*\n?|\n)*)", text, re.M)
    return found[1] if found else ""


def find_lost_documents() -> Iterator[str]:
    """Documents that no navigation leads to."""
    listed = (ROOT / "mkdocs.yml").read_text()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = str(path.relative_to(ROOT / "docs"))
        if not re.search(rf"(?<![\w/]){re.escape(name)}\s*$", listed, re.M):
            yield f"docs/{name} must be in the navigation of mkdocs.yml"


def main() -> int:
    """Print every fault; return how many there are, at most 1."""
    checks = (find_names_used_twice, find_foreign_errors, find_faults_of_the_face, find_lost_documents)
    faults = [fault for check in checks for fault in check()]
    for fault in faults:
        print(fault)
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main())
