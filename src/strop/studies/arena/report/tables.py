"""The arena's tables: the leaderboard, every task at every size, and what entrants cost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from strop.report.format import fixed, mean_sd, p_value, percent
from strop.report.tables import Column, Table, size_columns
from strop.studies.arena.board import BASELINE, Board, Cell


def leaderboard(found: Board) -> Table:
    """Every entrant: its mean score, its score in each task, its controls. Scores are per cent."""
    sharp, controls = found.tasks_of_kind(control=False), found.tasks_of_kind(control=True)
    rows: list[list[object]] = []
    for entry in found.entries:
        scores = [mean_or_none(found.score(task, entry)) for task in (*sharp, *controls)]
        rows.append([entry, found.overall(entry), *scores, _cost(found, entry)])
    columns = [
        Column("entry", "normaliser"),
        Column("overall", "mean of the sharp tasks", percent, "right"),
        *(Column(task, task, percent, "right") for task in sharp),
        *(Column(task, f"{task} (control)", percent, "right") for task in controls),
        Column("cost", "training time ÷ softmax", lambda v: fixed(v, 2), "right"),
    ]
    scored = range(1, 2 + len(sharp) + len(controls))
    marks = frozenset((i, j) for j in scored for i in _largest([row[j] for row in rows]))
    return Table(columns, rows, "Score, %: mean accuracy over sizes larger than any in training", best=marks)


def task_table(found: Board, task: str, split: str) -> Table:
    """Accuracy of every entrant at every size of one task, and its test against softmax."""
    cells = {entry: found.cells[task][entry] for entry in found.entries if entry in found.cells[task]}
    sizes = sorted({n for cell in cells.values() for n in cell.accuracy[split]})
    rows: list[list[object]] = []
    for entry, cell in cells.items():
        at = [mean_sd(cell.accuracy[split].get(n, []), scale=100) for n in sizes]
        verdict = found.verdict(task, entry) if entry != BASELINE else "base"
        rows.append([entry, *at, cell.seeds, p_value(cell.p), verdict])
    columns = [
        Column("entry", "accuracy, %"),
        *size_columns(sizes),
        Column("seeds"),
        Column("p", "p, Holm", str, "right", rank=2.5),
        Column("verdict", "against softmax", rank=1.5),
    ]
    return Table(columns, rows, task if split == "test" else f"{task}, {split}")


def task_tables(found: Board) -> list[Table]:
    """The tables of all tasks and splits, in order."""
    splits = {task: next(iter(entrants.values())).accuracy for task, entrants in found.cells.items()}
    return [task_table(found, task, split) for task, at in splits.items() for split in at]


def cost_table(found: Board) -> Table:
    """What each entrant costs: rate, parameters, training time, time of a problem at the largest size."""
    rows: list[list[object]] = []
    for task, entrants in found.cells.items():
        for entry, cell in entrants.items():
            split = list(cell.seconds)[-1]
            last = max(cell.seconds[split])
            rows.append(
                [task, entry, cell.about["lr"], cell.about["parameters"], cell.about["normaliser_parameters"],
                 _mean_seconds(cell), last, 1e3 * statistics.fmean(cell.seconds[split][last])]
            )  # fmt: skip
    heads = ("task", "normaliser", "rate", "parameters", "of the normaliser", "training, s", "n", "ms a problem")
    return Table([Column(head) for head in heads], rows, "Cost: processor time of one thread, means over seeds")


def _cost(found: Board, entry: str) -> float | None:
    """Training time as a multiple of softmax's, over the tasks that both have."""
    both = [row for row in found.cells.values() if entry in row and BASELINE in row]
    mine, base = (sum(_mean_seconds(row[name]) for row in both) for name in (entry, BASELINE))
    return mine / base if both else None


def _mean_seconds(cell: Cell) -> float:
    return statistics.fmean(cell.training_seconds.values())


def mean_or_none(values: Sequence[float]) -> float | None:
    """The mean; None where there is nothing."""
    return statistics.fmean(values) if values else None


def _largest(values: Sequence[object]) -> list[int]:
    """Return where the largest number stands, every place of it."""
    top = max((value for value in values if isinstance(value, float)), default=None)
    return [i for i, value in enumerate(values) if top is not None and value == top]
