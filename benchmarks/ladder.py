"""The ladder of query edits on SmolLM2: which form holds as inputs grow? Resumes; every run is kept.

    python benchmarks/ladder.py calibrate query-2 constant      # minutes each; edges under runs/ladder
    python benchmarks/ladder.py evaluate query-2 constant       # a cell at a time, into benchmarks/results/ladder.json
    python benchmarks/ladder.py table                           # what has been measured so far

A cell is 216 prompts: 12 passages of 18 questions, four passages in each of the three held-out wordings of look-up,
whose nouns calibration never saw. Questions of one passage share its cache. Prose is the test split.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import strop
from strop.evaluation.answers import answer_passages, score_prose
from strop.evaluation.paired import mcnemar_p, sign_flip_p, wilson_interval
from strop.evaluation.suite import Suite
from strop.patching.freeze import freeze
from strop.pretrained.load import open_model
from strop.records import atomic_path
from strop.tasks.answers import Reader
from strop.tasks.prose import cut_windows, read_prose

MODEL, EDGES = "smollm2", Path("runs/ladder")
RESULTS = Path(__file__).parent / "results" / "ladder.json"
UNTOUCHED = "untouched"

SHARED = {
    "task": "lookup", "sizes": (8, 24), "judged": (24, 96), "echoes": 6, "steps": 100, "every": 25, "budget": 0.006,
}  # fmt: skip
RUNGS: dict[str, dict[str, Any]] = {
    "constant": {"form": "constant"},
    "log-n": {"form": "log-n"},
    "pairs": {"form": "pairs"},
    "query-1": {"form": "query", "rank": 1},
    "query-2": {"form": "query", "rank": 2},
    "query-2-alone": {"form": "query", "rank": 2, "outputs": False},
    "query-2-constant": {"form": "query+constant", "rank": 2},
    "query-2-log-n": {"form": "query+log-n", "rank": 2},
    "query-2-seed-1": {"form": "query", "rank": 2, "seed": 1},
    "query-4": {"form": "query", "rank": 4},
    "query-8": {"form": "query", "rank": 8},
}
"""What differs between rungs: data, steps, guard, validation and budget are the same unless a rung says otherwise."""

CELLS: dict[str, dict[str, Any]] = {
    **{f"similar {n}": {"task": "lookup-similar", "sizes": (n,)} for n in (16, 48, 96, 192, 480)},
    **{f"nouns {n}": {"task": "lookup-nouns", "sizes": (n,)} for n in (64, 128, 480)},
    **{name: {"task": name, "sizes": (16,)} for name in ("counting", "maximum", "passkey", "variables")},
}
LATER = ("similar 480", "nouns 480")
"""Cells of twenty times the largest size that was calibrated on: measured when asked for by name."""


def main() -> None:
    """Run one of the three parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["calibrate", "evaluate", "table"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--cells", nargs="*", default=[name for name in CELLS if name not in LATER])
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        import torch

        torch.set_num_threads(given.threads)
    if given.part == "calibrate":
        for name in given.names or RUNGS:
            calibrate(name)
    elif given.part == "evaluate":
        evaluate(given.names or [UNTOUCHED, *(path.stem for path in sorted(EDGES.glob("*.safetensors")))], given.cells)
    print_table(read())


def calibrate(name: str) -> None:
    """Calibrate one rung, unless it is there; an interrupted one goes on."""
    path = EDGES / f"{name}.safetensors"
    if path.exists():
        return
    began = time.monotonic(), time.process_time()
    edge = strop.calibrate(MODEL, **(SHARED | RUNGS[name]), runs=EDGES / "state", progress=False)
    edge.save(path)
    took = {"wall": time.monotonic() - began[0], "processor": time.process_time() - began[1]}
    numbers = sum(p.numel() for named in edge.parts.values() for part in named.values() for p in part.parameters())
    update(name, "made", {**edge.made["progress"], **took, "numbers": numbers, "digest": edge.digest})
    print(name, edge.summary, flush=True)


def evaluate(names: list[str], cells: list[str]) -> None:
    """Measure what is missing, a cell at a time, the same cell of all rungs after each other."""
    opened = open_model(MODEL, None, None, False, "auto", "auto")
    reader = Reader(opened.tokenizer)
    for cell in ["prose", *cells]:
        for name in names:
            if cell in read().get(name, {}):
                continue
            edge = None if name == UNTOUCHED else strop.Edge.load(EDGES / f"{name}.safetensors")
            with freeze(opened.model), nullcontext() if edge is None else edge.put_on(opened.model):
                found = _prose(opened.model, reader) if cell == "prose" else _answers(opened.model, reader, cell)
            update(name, cell, found)
            print(name, cell, found.get("exact", found), flush=True)


def _prose(model: Any, reader: Reader) -> dict[str, Any]:
    text = read_prose("test")
    return {str(n): score_prose(model, cut_windows(reader, text, n, 9, apart=True)) for n in (256, 1024)}


def _answers(model: Any, reader: Reader, cell: str) -> dict[str, Any]:
    lookup = cell.startswith(("similar", "nouns"))
    kind = {"phrasings": ("ticket", "account", "box"), "prompts": 72, "questions": 18} if lookup else {"prompts": 60}
    rows = answer_passages(model, reader, Suite(**CELLS[cell], **kind).passages(), cell)
    right = "".join("1" if row["exact"] else "0" for row in rows)
    nats = sum(float(row["nats"]) for row in rows) / len(rows)
    return {
        "exact": right.count("1") / len(right),
        "nats": nats,
        "right": right,
        "passages": [r["passage"] for r in rows],
    }


def read() -> dict[str, dict[str, Any]]:
    """Return everything measured so far: rung → cell → what was found."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def update(name: str, cell: str, found: dict[str, Any]) -> None:
    """Keep one more measurement."""
    kept = read()
    kept.setdefault(name, {})[cell] = found
    with atomic_path(RESULTS) as temporary:
        temporary.write_text(json.dumps(kept, indent=0))


def print_table(kept: dict[str, dict[str, Any]]) -> None:
    """Print accuracies with intervals, p-values against the untouched model, and the change of prose."""
    cells = [cell for cell in CELLS if any(cell in found for found in kept.values())]
    print("| |", " | ".join([*cells, "prose 256", "prose 1,024", "numbers", "validated, nats", "drift"]), "|")
    print("|---" * (len(cells) + 6) + "|")
    for name, found in kept.items():
        base = {} if name == UNTOUCHED else kept.get(UNTOUCHED, {})
        row = [_cell(found[cell], base.get(cell)) if cell in found else "" for cell in cells]
        row += [_change(found, kept.get(UNTOUCHED, {}), n) for n in ("256", "1024")]
        made = found.get("made", {})
        row += [
            str(made[k]) if k == "numbers" else f"{made[k]:.4f}" for k in ("numbers", "best_task", "best_drift") if made
        ]
        print(f"| {name} |", " | ".join(row), "|")


def _cell(found: dict[str, Any], base: dict[str, Any] | None) -> str:
    right = [c == "1" for c in found["right"]]
    low, high = wilson_interval(sum(right), len(right))
    shown = f"{100 * found['exact']:.1f} ({100 * low:.0f}–{100 * high:.0f})"
    if base is None:
        return shown
    before = [c == "1" for c in base["right"]]
    p = max(mcnemar_p(before, right), sign_flip_p(before, right, found["passages"]))
    return f"{shown} p {p:.0e}"


def _change(found: dict[str, Any], base: dict[str, Any], tokens: str) -> str:
    if "prose" not in found or "prose" not in base:
        return ""
    changes = [b - a for a, b in zip(base["prose"][tokens], found["prose"][tokens], strict=True)]
    mean = sum(changes) / len(changes)
    error = (sum((c - mean) ** 2 for c in changes) / (len(changes) - 1) / len(changes)) ** 0.5
    return f"{mean:+.4f} ± {error:.4f}"


if __name__ == "__main__":
    main()
