"""The arena's figures, from its board: what to draw. `drawings.py` says how."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from strop.report.curves import draw_curves
from strop.studies.arena.board import BASELINE, Board, SeedCurves
from strop.studies.arena.report import drawings
from strop.studies.arena.report.tables import mean_or_none
from strop.studies.problems.catalogue import find_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURED_ENTRIES = 8


def draw_board(found: Board) -> dict[str, Figure]:
    """Every figure by its file name."""
    shown = sorted(found.entries, key=lambda entry: entry != BASELINE)[:COLOURED_ENTRIES]
    trained = {title: find_problem(title.split(",")[0]).train_sizes[1] for title in _panels(found, "accuracy")}
    tasks = [*found.tasks_of_kind(control=False), *found.tasks_of_kind(control=True)]
    scores = [[mean_or_none(found.score(task, entry)) for task in tasks] for entry in found.entries]
    out = {"board": drawings.draw_scores(found.entries, tasks, scores, "score, %")}
    for name, scale, label in (
        ("accuracy", 100.0, "accuracy, %"), ("top_weight", 1.0, "top weight"), ("entropy", 1.0, "entropy, nats")
    ):  # fmt: skip
        if panels := _panels(found, name, scale):  # weights that do not sum to 1 have no entropy
            out[name.replace("_", "-")] = draw_curves(panels, shown, label, trained)
    return out


def _panels(found: Board, name: str, scale: float = 1.0) -> dict[str, dict[str, dict[int, float]]]:
    out: dict[str, dict[str, dict[int, float]]] = {}
    for task, entrants in found.cells.items():
        for entry, cell in entrants.items():
            curves: dict[str, SeedCurves] = getattr(cell, name)
            for split, sizes in curves.items():
                title = task if split == "test" else f"{task}, {split}"
                means = {n: scale * statistics.fmean(values) for n, values in sorted(sizes.items())}
                out.setdefault(title, {})[entry] = means
    return out
