"""The sweep's rows as Markdown between two marks of docs/families.md, and as data in docs/families.json."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from typing import Any

import torch
import transformers

from sweep.check import OUTCOMES
from sweep.columns import COLUMNS
from sweep.models import model_types
from sweep.workers import ROOT

START, END = "<!-- swept: start (make families) -->", "<!-- swept: end -->"
PAGE, DATA = ROOT / "docs" / "families.md", ROOT / "docs" / "families.json"
SIGNS = {"equal": "=", "partial": "part", "refused": "ref", "raised": "**raised**", "differs": "**differs**",
         "silent": "**silent**", "not runnable": "×", "–": ""}  # fmt: skip
REASONS = {
    "requires the timm": "needs timm",
    "requires the natten": "needs natten",
    "requires the torchaudio": "needs torchaudio",
    "detectron2": "needs detectron2",
    "million parameters": "too large",
    "more than": "takes too long",
    "no inputs": "no general inputs",
    "StrictDataclass": "sizes that its config refuses",
}
"""What a message says → why many models do not run, in few words."""

FINE = 1e-5
"""Differences above this are counted in the table: gradients, mostly, in which float32 cancels."""

Row = dict[str, Any]


def show(row: Row) -> str:
    """One row for the terminal: only what is not equal."""
    cells = {name: cell["word"] for name, cell in row["columns"].items() if cell["word"] not in ("equal", "–")}
    return f"{row['model_type']}: {', '.join(f'{name} {word}' for name, word in cells.items()) or 'equal'}"


def write(rows: list[Row]) -> None:
    """Write data and page."""
    rows = sorted(rows, key=lambda row: row["model_type"])
    DATA.write_text("[\n" + ",\n".join(json.dumps(_lean(row), ensure_ascii=False) for row in rows) + "\n]\n")
    before, rest = PAGE.read_text().split(START)
    text = "\n".join(tables(rows))
    PAGE.write_text(f"{before}{START}\n{text}\n{END}{rest.split(END)[1]}")


def tables(rows: list[Row]) -> Iterator[str]:
    """Yield all lines."""
    run = [row for row in rows if row["columns"]["forward"]["word"] != "not runnable"]
    yield (
        f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}, {date.today()}: "
        f"{len(rows)} of {len(model_types())} model types swept, {len(run)} of them run here.\n"
    )
    yield from _counts(rows)
    yield from _reached(run)
    yield from _told(rows, ("silent", "differs", "raised"), "What is raised or differs")
    yield from _told(rows, ("partial",), "Reached in part")
    yield from _families(run)
    yield from _absent(rows)


def _counts(rows: list[Row]) -> Iterator[str]:
    yield f"| | {' | '.join(COLUMNS)} | all |"
    yield "|---" * (len(COLUMNS) + 2) + "|"
    for word in OUTCOMES:
        counts = [sum(row["columns"][name]["word"] == word for row in rows) for name in COLUMNS]
        yield f"| {word} | {' | '.join(map(str, counts))} | {sum(counts)} |"
    far = [
        [row["columns"][name]["apart"] for row in rows if row["columns"][name]["word"] == "equal"] for name in COLUMNS
    ]
    every = [one for column in far for one in column]
    for title, count in (("largest difference", _largest), (f"equal, above {FINE:.0e}", _count_coarse)):
        yield f"| {title} | {' | '.join(map(count, far))} | {count(every)} |"
    yield ""


def _largest(far: list[float]) -> str:
    return f"{max(far):.0e}" if far else ""


def _count_coarse(far: list[float]) -> str:
    return str(sum(one > FINE for one in far))


def _reached(rows: list[Row]) -> Iterator[str]:
    without = [row["model_type"] for row in rows if not row["attention"]]
    if without:
        yield f"No attention was seen in the forward pass of {len(without)} of them: {', '.join(without)}.\n"


def _told(rows: list[Row], words: tuple[str, ...], title: str) -> Iterator[str]:
    """The details of some outcomes; families that share one stand together."""
    found: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for name, cell in row["columns"].items():
            if cell["word"] in words:
                found[(cell["word"], cell["detail"])][row["model_type"]].append(name)
    yield f"### {title}\n"
    for (word, detail), where in found.items():
        places = "; ".join(f"{kind} ({', '.join(names)})" for kind, names in where.items())
        yield f"- {word}: {places}. {_plain(detail)}"
    yield "" if found else "Nothing.\n"


def _families(rows: list[Row]) -> Iterator[str]:
    yield "### Every family\n"
    yield f"| family | class | reads | attention modules | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 4) + "|"
    for row in rows:
        cells = " | ".join(SIGNS[row["columns"][name]["word"]] for name in COLUMNS)
        yield f"| {row['model_type']} | {row['model_class']} | {row['reads']} | {row['attention']} | {cells} |"
    yield ""


def _absent(rows: list[Row]) -> Iterator[str]:
    yield "### Not runnable here\n"
    reasons: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["columns"]["forward"]["word"] == "not runnable":
            reasons[_reason(row["columns"]["forward"]["detail"])].append(row["model_type"])
    for reason, kinds in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
        yield f"- {reason}: {', '.join(kinds)}"


def _reason(detail: str) -> str:
    """Reasons that many share, in few words; any other as it is."""
    for part, reason in REASONS.items():
        if part in detail:
            return reason
    return "no general sizes or inputs"


def _lean(row: Row) -> Row:
    """Without what repeats: columns that do not apply, and times."""
    columns = {name: cell for name, cell in row["columns"].items() if cell["word"] != "–"}
    words = {cell["word"] for cell in columns.values()}
    if words == {"not runnable"}:
        columns = {"forward": columns["forward"]}
    kept = {
        name: f"{cell['word']}: {cell['detail']}" if cell["detail"] else cell["word"] for name, cell in columns.items()
    }
    return {name: value for name, value in row.items() if name not in ("columns", "seconds")} | {"columns": kept}


def _plain(detail: str) -> str:
    return detail.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
