"""Does a diagnosis predict what calibration gains? Over models × tasks × sizes, on the same prompts before and after.

    python benchmarks/prediction.py                       # what was measured so far, and the correlations
    python benchmarks/prediction.py smollm2 recall        # one task of one model, three sizes; goes on if stopped

A model is diagnosed on a task, beginning with the sizes at which it fails. It is then calibrated on that task, shortly:
14 steps, prose of 256 tokens, no guard. The same prompts are asked again. A cell is a size:

    dispersion   share of the wrong answers that are called dispersion
    trial        share that one step of temperatures mends, at the first size that fails (same for the task's cells)
    mended       share of the wrong answers that calibration makes right
    gain         exact answers after less before, as a share of all

Spearman's rank correlation of dispersion and of trial with mended and with gain. Sizes of a task share a calibration,
so intervals are from a bootstrap over tasks of models, not over cells.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from bluntness import correlate

import strop
from strop.diagnosing.asking import answer_rows, exact, read_context
from strop.diagnosing.causes import CAUSES
from strop.diagnosing.plan import Questioning
from strop.diagnosing.sizes import draw_size
from strop.pretrained.load import open_model
from strop.tasks.answers import Reader

RESULT = Path(__file__).parent / "results" / "prediction.json"
PLAN = Questioning(prompts=24, longest=1024, more=2)
CELLS = 3
DRAWS = 2000


def measure(name: str, task: str) -> list[dict[str, Any]]:
    """Diagnose, calibrate and ask again: a cell for each of the last three sizes."""
    opened = open_model(name, None, None, False, "cpu", "float32")
    model, tokenizer = opened.model, opened.tokenizer
    asked = {"prompts": PLAN.prompts, "longest": PLAN.longest, "more": PLAN.more}
    found = strop.diagnose(model, tokenizer, task, **asked, progress=False)
    edge = strop.calibrate(
        model,
        tokenizer,
        task,
        form="constant",
        sizes=(8, 24),
        echoes=0,
        steps=14,
        every=14,
        budget=0.009,
        guard=(),
        lengths=(256,),
        windows=2,
        half=True,
        progress=False,
    )
    trial = next((row["mended"] / row["wrong"] for row in found.trials if row["wrong"]), None)
    cells = []
    for row in found.causes[-CELLS:]:
        before = [one["exact"] for one in found.answers if one["size"] == row["size"]]
        after = ask_again(model, Reader(tokenizer), edge, task, row["size"])
        mended = sum(now and not then for then, now in zip(before, after, strict=True))
        broken = sum(then and not now for then, now in zip(before, after, strict=True))
        kept = {key: row[key] for key in ("task", "size", "tokens", "prompts", "wrong", *CAUSES)}
        cells.append({"model": name, **kept, "trial": trial, "mended": mended, "broken": broken})
    return cells


@torch.no_grad()
def ask_again(model: Any, reader: Reader, edge: strop.Edge, task: str, size: int) -> list[bool]:
    """Which of the diagnosed prompts are answered exactly with the edge on."""
    passages = draw_size(reader, task, size, PLAN)
    with edge.put_on(model):
        found = [exact(one, answer_rows(model, one, read_context(model, one))) for one in passages or []]
    return [bool(one) for one in torch.cat(found)]


def summarise(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Correlations over the cells with at least four wrong answers, with 95 % intervals."""
    used = [cell for cell in cells if cell["wrong"] >= 4 and cell["trial"] is not None]
    columns = {
        "dispersion": [cell["dispersion"] / cell["wrong"] for cell in used],
        "trial": [cell["trial"] for cell in used],
        "mended": [cell["mended"] / cell["wrong"] for cell in used],
        "gain": [(cell["mended"] - cell["broken"]) / cell["prompts"] for cell in used],
    }
    clusters: dict[tuple[str, str], list[int]] = {}
    for i, cell in enumerate(used):
        clusters.setdefault((cell["model"], cell["task"]), []).append(i)
    told: dict[str, Any] = {"cells": len(cells), "used": len(used), "tasks of models": len(clusters)}
    for first in ("dispersion", "trial"):
        for second in ("mended", "gain"):
            told[f"{first} ~ {second}"] = _interval(columns[first], columns[second], list(clusters.values()))
    return told


def _interval(first: list[float], second: list[float], clusters: list[list[int]]) -> list[float | None]:
    """Spearman's correlation, and its 2.5 and 97.5 % points over draws of clusters."""
    if len(clusters) < 3:
        return [None, None, None]
    draw, drawn = torch.Generator().manual_seed(0), []
    for _ in range(DRAWS):
        chosen = torch.randint(len(clusters), (len(clusters),), generator=draw).tolist()
        picked = [i for cluster in chosen for i in clusters[cluster]]
        drawn.append(correlate([first[i] for i in picked], [second[i] for i in picked]))
    known = torch.tensor([value for value in drawn if value == value])
    ends = known.quantile(torch.tensor([0.025, 0.975])).tolist() if len(known) else [float("nan")] * 2
    return [round(value, 3) if value == value else None for value in (correlate(first, second), *ends)]


def main() -> None:
    """Measure what is named, then tell."""
    made = measure(*sys.argv[1:]) if len(sys.argv) == 3 else []
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else []
    if made:
        kept = [cell for cell in kept if [cell["model"], cell["task"]] != sys.argv[1:]] + made
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for cell in kept:
        print(json.dumps(cell))
    print(json.dumps(summarise(kept)))


if __name__ == "__main__":
    main()
