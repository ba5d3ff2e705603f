"""The arena's board as tables, figures, CSV and one page; everything is written under <root>/arena/."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from strop.experiments import arena_text as words
from strop.experiments.arena import Arena, collect, failures
from strop.experiments.arena_board import BASE, Board, Cell, Curves, board
from strop.experiments.arena_entries import unfit
from strop.experiments.arena_runs import EXPERIMENT
from strop.records import Record, canonical, provenance, write, write_csv, write_text
from strop.report import arena as draw
from strop.report import figures
from strop.report.format import fixed, mean_sd, number, p_value, percent
from strop.report.page import Page
from strop.report.tables import Column, Table
from strop.tasks.problems import task_by_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = 8


def leaderboard(found: Board) -> Table:
    """Every entrant: its mean score, its score in each task, its controls. Scores are per cent."""
    sharp, controls = found.of(control=False), found.of(control=True)
    rows: list[list[object]] = []
    for entry in found.entries:
        scores = [_mean(found.score(task, entry)) for task in (*sharp, *controls)]
        rows.append([entry, found.overall(entry), *scores, _cost(found, entry)])
    columns = [
        Column("entry", "normaliser"),
        Column("overall", "mean of the sharp tasks", percent, "right"),
        *(Column(task, task, percent, "right") for task in sharp),
        *(Column(task, f"{task} (control)", percent, "right") for task in controls),
        Column("cost", "training time ÷ softmax", lambda v: fixed(v, 2), "right"),
    ]
    best = [_largest([row[1 + j] for row in rows]) for j in range(1 + len(sharp) + len(controls))]
    marks = frozenset((i, 1 + j) for j, i in enumerate(best) if i is not None)
    return Table(columns, rows, "Score, %: mean accuracy over sizes larger than any in training", best=marks)


def task_table(found: Board, task: str, split: str) -> Table:
    """Accuracy of every entrant at every size of one task, and its test against softmax."""
    cells = {entry: found.cells[task][entry] for entry in found.entries if entry in found.cells[task]}
    sizes = sorted({n for cell in cells.values() for n in cell.accuracy[split]})
    rows: list[list[object]] = []
    for entry, cell in cells.items():
        at = [mean_sd(cell.accuracy[split].get(n, []), scale=100) for n in sizes]
        verdict = found.verdict(task, entry) if entry != BASE else "base"
        rows.append([entry, *at, cell.seeds, p_value(cell.p), verdict])
    columns = [
        Column("entry", "accuracy, %"),
        *(Column(str(n), number(n), str, "right") for n in sizes),
        Column("seeds"),
        Column("p", "p, Holm", str, "right"),
        Column("verdict", "against softmax"),
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
                 statistics.fmean(cell.trained.values()), last, 1e3 * statistics.fmean(cell.seconds[split][last])]
            )  # fmt: skip
    heads = ("task", "normaliser", "rate", "parameters", "of the normaliser", "training, s", "n", "ms a problem")
    return Table([Column(head) for head in heads], rows, "Cost: processor time of one thread, means over seeds")


def write_results(arena: Arena, root: str | Path, failed: Mapping[str, str] | None = None) -> tuple[Board, Path]:
    """Write records.jsonl, board.csv, board.md, figures and report.html from what is finished."""
    folder = Path(root) / EXPERIMENT
    records, origin = collect(arena, root), provenance()
    found = board(records)
    write(folder / "records.jsonl", [{"what": "provenance", **origin, "config": canonical(arena)}, *records])
    table = leaderboard(found)
    write_csv(folder / "board.csv", table.records())
    write_csv(folder / "records.csv", records)
    write_text(folder / "board.md", f"{table.caption}\n\n{table.markdown()}")
    drawn = pictures(found) if records else {}
    for name, figure in drawn.items():
        figures.png(figure, folder / "figures" / f"{name}.png")
    page = _page(arena, found, drawn, failed if failed is not None else failures(arena, root), origin)
    page.write(folder / "report.html")
    return found, folder / "report.html"


def pictures(found: Board) -> dict[str, Figure]:
    """Every figure by its file name."""
    shown = sorted(found.entries, key=lambda entry: entry != BASE)[:COLOURS]
    trained = {title: task_by_name(title.split(",")[0]).train_sizes[1] for title in _panels(found, "accuracy")}
    tasks = [*found.of(control=False), *found.of(control=True)]
    scores = [[_mean(found.score(task, entry)) for task in tasks] for entry in found.entries]
    out = {"board": draw.heat(found.entries, tasks, scores, "score, %")}
    for name, scale, label in (
        ("accuracy", 100.0, "accuracy, %"), ("top_weight", 1.0, "top weight"), ("entropy", 1.0, "entropy, nats")
    ):  # fmt: skip
        if panels := _panels(found, name, scale):  # weights that do not sum to 1 have no entropy
            out[name.replace("_", "-")] = draw.curves(panels, shown, label, trained)
    return out


def standing(arena: Arena, found: Board) -> str:
    """Say in a sentence how much of the arena is there."""
    wanted = sum(arena.seeds for _ in arena.pairs())
    there = sum(cell.seeds for row in found.cells.values() for cell in row.values())
    return f"{there} of {wanted} models tested."


def _panels(found: Board, name: str, scale: float = 1.0) -> dict[str, dict[str, dict[int, float]]]:
    out: dict[str, dict[str, dict[int, float]]] = {}
    for task, entrants in found.cells.items():
        for entry, cell in entrants.items():
            curves: dict[str, Curves] = getattr(cell, name)
            for split, sizes in curves.items():
                title = task if split == "test" else f"{task}, {split}"
                means = {n: scale * statistics.fmean(values) for n, values in sorted(sizes.items())}
                out.setdefault(title, {})[entry] = means
    return out


def _page(arena: Arena, found: Board, drawn: Mapping[str, Figure], failed: Mapping[str, str], origin: Record) -> Page:
    page = Page("Which attention stays sharp?", lead=words.LEAD, provenance=origin)
    svg = {name: figures.svg(figure) for name, figure in drawn.items()}
    section = page.section("The board")
    section.text(f"{standing(arena, found)} {words.BOARD}")
    if found.cells:
        for entry in found.entries[:3]:
            overall = found.overall(entry)
            if overall is not None:
                page.fact(f"{percent(overall)} %", f"{entry}: mean score of the sharp tasks")
        section.table(leaderboard(found), sortable=True)
        section.figure(svg["board"], words.HEAT_CAPTION, alt="Scores of every normaliser in every task")
        section = page.section("As sizes grow")
        section.figure(svg["accuracy"], words.CURVES_CAPTION, alt="Accuracy against size by normaliser")
        for table in task_tables(found):
            section.table(table, sortable=True)
        section = page.section("How sharp attention is")
        section.text(words.SHARPNESS)
        if "top-weight" in svg:
            section.figure(svg["top-weight"], words.TOP_CAPTION, alt="Top weight against size")
        if "entropy" in svg:
            section.figure(svg["entropy"], words.ENTROPY_CAPTION, alt="Entropy against size")
        section = page.section("When not to sharpen")
        section.text(when_not(found))
        section = page.section("What it costs")
        section.table(cost_table(found), sortable=True, filterable=True)
    section = page.section("How it was done")
    section.text(words.METHOD)
    for line in left_out(arena):
        section.note(line)
    if failed:
        section.heading("Runs that failed and count nowhere")
        section.table(Table([Column("run"), Column("reason")], [list(item) for item in failed.items()]))
    page.data("config", canonical(arena))
    return page


def when_not(found: Board) -> str:
    """What the controls say, from this board's own tests."""
    lines = []
    for task in found.of(control=True):
        verdicts = {entry: found.verdict(task, entry) for entry in found.cells[task] if entry != BASE}
        better = [entry for entry, verdict in verdicts.items() if verdict == "better"]
        worse = [entry for entry, verdict in verdicts.items() if verdict == "worse"]
        lines.append(
            f"`{task}`: significantly better than softmax: {', '.join(better) or 'none'}; significantly worse: "
            f"{', '.join(worse) or 'none'}."
        )
    return words.CONTROLS + (" " + " ".join(lines) if lines else " This board has no control task.")


def left_out(arena: Arena) -> list[str]:
    """Entrants that do not fit a task, each with its reason."""
    out: dict[str, list[str]] = {}
    for task in arena.tasks:
        for entry in arena.entrants():
            reason = unfit(entry, task_by_name(task), arena.shape.positions)
            if reason is not None:
                out.setdefault(reason, []).append(task)
    return [f"Not in {', '.join(tasks)}: {reason}." for reason, tasks in out.items()]


def _cost(found: Board, entry: str) -> float | None:
    """Training time as a multiple of softmax's, over the tasks that both have."""
    mine = [(row[entry], row[BASE]) for row in found.cells.values() if entry in row and BASE in row]
    return sum(map(_trained, (m for m, _ in mine))) / sum(map(_trained, (b for _, b in mine))) if mine else None


def _trained(cell: Cell) -> float:
    return statistics.fmean(cell.trained.values())


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _largest(values: Sequence[object]) -> int | None:
    there = [(value, -i) for i, value in enumerate(values) if isinstance(value, float)]
    return -max(there)[1] if there else None
