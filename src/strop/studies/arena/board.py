"""Records of an arena → the board: scores, tests, verdicts.

score    mean accuracy over the test sizes larger than any in training, and over splits; one for each seed
p        two-sided paired t-test over seeds against softmax (same problems, same initial weights), then Holm's
         correction over the entrants of the task: p_(i) · (m − i), made monotone
verdict  better or worse where the corrected p is below 0.05, else "–": nothing is claimed
rank     by the mean score over the tasks that are no controls, for entrants that have all of them
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strop.evaluation.paired import holm
from strop.records import Record, whole
from strop.studies.problems.catalogue import find_problem
from strop.studies.significance import paired_p

BASELINE = "softmax"
ALPHA = 0.05
SeedCurves = dict[int, list[float]]
"""Size → a value for each seed, in the order of seeds."""


@dataclass
class Cell:
    """One entrant in one task: curves by split, and what its training cost."""

    accuracy: dict[str, SeedCurves] = field(default_factory=dict)
    top_weight: dict[str, SeedCurves] = field(default_factory=dict)
    entropy: dict[str, SeedCurves] = field(default_factory=dict)
    seconds: dict[str, SeedCurves] = field(default_factory=dict)
    about: Record = field(default_factory=dict)
    training_seconds: dict[int, float] = field(default_factory=dict)
    p: float | None = None

    @property
    def seeds(self) -> int:
        """How many models were tested."""
        return len(self.training_seconds)


@dataclass
class Board:
    """cells[task][entry], both in the order of their first record."""

    cells: dict[str, dict[str, Cell]]

    @property
    def tasks(self) -> list[str]:
        """Tasks with a result."""
        return list(self.cells)

    @property
    def entries(self) -> list[str]:
        """Entrants with a result, best first, those that lack a task last."""
        names = dict.fromkeys(entry for row in self.cells.values() for entry in row)
        overall = {name: self.overall(name) for name in names}
        return sorted(names, key=lambda name: -1.0 if (score := overall[name]) is None else score, reverse=True)

    def tasks_of_kind(self, *, control: bool) -> list[str]:
        """The tasks that are controls, or those that are not."""
        return [task for task in self.tasks if find_problem(task).control == control]

    def score(self, task: str, entry: str) -> list[float]:
        """The score of each seed; empty where there is no result."""
        cell = self.cells[task].get(entry)
        return score_seeds(task, cell.accuracy) if cell else []

    def overall(self, entry: str, *, control: bool = False) -> float | None:
        """Mean score over all tasks of a kind; None unless the entrant has a result in each."""
        scores = [self.score(task, entry) for task in self.tasks_of_kind(control=control)]
        return statistics.fmean(map(statistics.fmean, scores)) if scores and all(scores) else None

    def verdict(self, task: str, entry: str) -> str:
        """How the entrant stands against softmax in a task: better, worse, or – where the test tells nothing."""
        cell = self.cells[task].get(entry)
        if cell is None or cell.p is None or cell.p >= ALPHA:
            return "–"
        mine, base = statistics.fmean(self.score(task, entry)), statistics.fmean(self.score(task, BASELINE))
        return "better" if mine > base else "worse"


def build_board(records: Iterable[Record]) -> Board:
    """Sort records into cells and test them."""
    cells: dict[str, dict[str, Cell]] = {}
    for row in sorted(records, key=lambda row: whole(row["seed"])):
        _put(cells.setdefault(str(row["task"]), {}).setdefault(str(row["entry"]), Cell()), row)
    for task, entrants in cells.items():
        _test(task, entrants)
    return Board(cells)


def score_seeds(task: str, accuracy: Mapping[str, SeedCurves]) -> list[float]:
    """Mean accuracy of each seed over splits and over sizes beyond training (over all sizes where none is)."""
    beyond = find_problem(task).train_sizes[1]
    curves = [values for split in accuracy.values() for size, values in split.items() if size > beyond]
    curves = curves or [values for split in accuracy.values() for values in split.values()]
    return [statistics.fmean(seed) for seed in zip(*curves, strict=True)]


def _put(cell: Cell, row: Mapping[str, Any]) -> None:
    for name in ("accuracy", "top_weight", "entropy", "seconds"):
        if row[name] is not None:
            getattr(cell, name).setdefault(row["split"], {}).setdefault(row["n"], []).append(row[name])
    cell.training_seconds[row["seed"]] = row["train_seconds"]
    cell.about = {key: row[key] for key in ("lr", "parameters", "normaliser_parameters")}


def _test(task: str, entrants: dict[str, Cell]) -> None:
    if BASELINE not in entrants:
        return
    base = entrants[BASELINE]
    seeds = list(base.training_seconds)
    rivals = [c for name, c in entrants.items() if name != BASELINE and list(c.training_seconds) == seeds]
    raw = [paired_p(score_seeds(task, cell.accuracy), score_seeds(task, base.accuracy)) for cell in rivals]
    tested = [(cell, p) for cell, p in zip(rivals, raw, strict=True) if p is not None]
    for (cell, _), p in zip(tested, holm([p for _, p in tested]), strict=True):
        cell.p = p
