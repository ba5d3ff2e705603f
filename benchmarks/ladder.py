"""The ladder of query edits on small models: which form holds as inputs grow? Resumes; every run is kept.

    python benchmarks/ladder.py calibrate query-2 constant      # minutes each; edges under runs/ladder/MODEL
    python benchmarks/ladder.py evaluate query-2 constant       # a cell at a time, into benchmarks/results/ladder.json
    python benchmarks/ladder.py table [query-2 …]               # what has been measured so far, of all rungs or some
    python benchmarks/ladder.py compare query-2 query-4         # two rungs, a paired test for every cell
    python benchmarks/ladder.py figure query-8 pairs            # docs/figures/ladder.png, of all models
    … --model gemma3-270m                                       # another model than smollm2
    … query-2-seed-1                                            # any rung from another seed

A cell is 216 prompts: 12 passages of 18 questions, four passages in each of the three held-out wordings of look-up,
whose nouns calibration never saw. Questions of one passage share its cache. Prose is the test split. As in calibration,
products with the frozen weights are in bfloat16 where the processor multiplies it.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import ladder_table
from ladder_figure import draw_ladder
from ladder_table import UNTOUCHED, Results

import strop
from strop.calibration.half_products import saves_time
from strop.calibration.quick_passes import quick_passes
from strop.evaluation.answers import answer_passages, score_prose
from strop.evaluation.suite import Suite
from strop.patching.freeze import freeze
from strop.pretrained.load import open_model
from strop.tasks.answers import Reader
from strop.tasks.prose import cut_windows, read_prose

MODELS = ("smollm2", "gemma3-270m")
EDGES = Path("runs/ladder")

SHARED = {
    "task": "lookup", "sizes": (8, 24), "judged": (24, 96), "echoes": 6, "steps": 100, "every": 100, "budget": 0.010,
}  # fmt: skip
QUERY = {"form": "query", "rank": 2}
RUNGS: dict[str, dict[str, Any]] = {
    "constant": {"form": "constant"},
    "constant-alone": {"form": "constant", "outputs": False},
    "outputs-alone": {"form": "none"},
    "layer": {"form": "layer"},
    "log-n": {"form": "log-n"},
    "power-n": {"form": "power-n"},
    "polynomial": {"form": "polynomial"},
    "hold": {"form": "hold"},
    "pairs": {"form": "pairs"},
    "pairs-alone": {"form": "pairs", "outputs": False},
    "pairs-log-n": {"form": "pairs+log-n"},
    "query-1": QUERY | {"rank": 1},
    "query-2": QUERY,
    "query-2-alone": QUERY | {"outputs": False},
    "query-2-constant": QUERY | {"form": "query+constant"},
    "query-2-log-n": QUERY | {"form": "query+log-n"},
    "query-2-polynomial": QUERY | {"form": "query+polynomial"},
    "query-4": QUERY | {"rank": 4},
    "query-8": QUERY | {"rank": 8},
    "query-8-alone": QUERY | {"rank": 8, "outputs": False},
    "query-8-log-n": {"form": "query+log-n", "rank": 8},
    "query-8-text": QUERY | {"rank": 8, "task": "text"},
}
"""What differs between rungs: data, steps, guard, validation and budget are the same unless a rung says otherwise."""

CELLS: dict[str, dict[str, Any]] = {
    **{f"similar {n}": {"task": "lookup-similar", "sizes": (n,)} for n in (16, 24, 48, 96, 192, 480)},
    **{f"nouns {n}": {"task": "lookup-nouns", "sizes": (n,)} for n in (64, 128, 480)},
    **{name: {"task": name, "sizes": (16,)} for name in ("counting", "maximum", "passkey", "variables")},
}
LATER = ("similar 480", "nouns 480")
"""Cells of twenty times the largest size that was calibrated on: measured when asked for by name."""


def main() -> None:
    """Run one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["calibrate", "evaluate", "table", "compare", "figure"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--cells", nargs="*", choices=[*CELLS, "prose"])
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.threads:
        import torch

        torch.set_num_threads(given.threads)
    results = Results(given.model)
    if given.part == "calibrate":
        for name in given.names or RUNGS:
            calibrate(results, name)
    elif given.part == "evaluate":
        made = [path.stem for path in sorted((EDGES / given.model).glob("*.safetensors"))]
        usual = [cell for cell in CELLS if cell not in LATER]
        evaluate(results, given.names or [UNTOUCHED, *made], given.cells or usual)
    if given.part == "figure":
        every = {model: Results(model).read() for model in MODELS}
        draw_ladder({model: rungs for model, rungs in every.items() if rungs}, given.names, SHARED["sizes"])
        return
    cells = [cell for cell in given.cells or CELLS if cell != "prose"]  # which a table always shows
    if given.part == "compare":
        ladder_table.print_comparison(results.read(), *given.names, cells)
    else:
        shown = given.names if given.part == "table" else []
        ladder_table.print_table(results.read(), shown, cells)


def calibrate(results: Results, name: str) -> None:
    """Calibrate one rung, unless it is there; an interrupted one goes on."""
    path, took = EDGES / results.model / f"{name}.safetensors", dict[str, float]()
    if not path.exists():
        began = time.monotonic(), time.process_time()
        runs = EDGES / results.model / "state"
        strop.calibrate(results.model, **(SHARED | settings_of(name)), runs=runs, progress=False).save(path)
        took = {"wall": time.monotonic() - began[0], "processor": time.process_time() - began[1]}
    edge = strop.Edge.load(path)
    about = edge.made.get("progress", {})  # an edge from statistics has none
    results.begin(name, {**about, **took, "numbers": edge.size, "digest": edge.digest})
    print(name, edge.summary, flush=True)


def settings_of(name: str) -> dict[str, Any]:
    """Return what a rung's name says, with its seed."""
    rung, _, seed = name.partition("-seed-")
    return RUNGS[rung] | ({"seed": int(seed)} if seed else {})


def evaluate(results: Results, names: list[str], cells: list[str]) -> None:
    """Measure what is missing, a cell at a time, the same cell of all rungs after each other."""
    opened = open_model(results.model, None, None, False, "auto", "auto")
    model, reader = opened.model, Reader(opened.tokenizer)
    with freeze(model), quick_passes(model, saves_time(model)):
        for cell in dict.fromkeys(["prose", *cells]):
            for name in names:
                if cell in results.read().get(name, {}):
                    continue
                edge = None if name == UNTOUCHED else strop.Edge.load(EDGES / results.model / f"{name}.safetensors")
                with nullcontext() if edge is None else edge.put_on(model):
                    found = _prose(model, reader) if cell == "prose" else _answers(model, reader, cell)
                results.update(name, cell, found)
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


if __name__ == "__main__":
    main()
