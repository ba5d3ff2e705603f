"""Are the heads that go blunt those that calibration changes? On SmolLM2, with the shipped recall edge.

    python benchmarks/bluntness.py      # a probe of a minute or two, kept in runs/; prints one JSON record

Bluntness is −slope of a head from `strop probe smollm2 --lengths 128,256,512,1024`, change is |log β| of the edge;
between them Spearman's rank correlation. Beside it: how many of the blunt heads are among as many of the most changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

import strop

EDGE = Path(__file__).parents[1] / "examples" / "edges" / "smollm2-recall.safetensors"
RESULT = Path(__file__).parent / "results" / "bluntness.json"


def rank(values: Sequence[float]) -> Tensor:
    """Ranks; equal values share the mean of theirs."""
    given = torch.tensor(values, dtype=torch.float64)
    below, equal = ((sign(given[:, None], given)).sum(1).double() for sign in (torch.gt, torch.eq))
    return below + (equal - 1) / 2


def correlate(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation."""
    return float(torch.corrcoef(torch.stack([rank(first), rank(second)]))[0, 1])


def main() -> None:
    """Probe, compare, print, and keep the record."""
    edge = {(row["layer"], row["head"]): abs(math.log(row["beta"])) for row in strop.Edge.load(EDGE).heads()}
    heads = strop.probe("smollm2", lengths=(128, 256, 512, 1024)).heads
    change = [edge[head["layer"], head["head"]] for head in heads]
    blunt = {i for i, head in enumerate(heads) if head["class"] == "dispersing"}
    most = sorted(range(len(heads)), key=lambda i: -change[i])[: len(blunt)]
    record = {
        "heads": len(heads),
        "spearman": round(correlate([-head["slope"] for head in heads], change), 3),
        "blunt": len(blunt),
        "blunt_among_most_changed": len(blunt & set(most)),
        "by_chance": round(len(blunt) ** 2 / len(heads), 1),
    }
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
