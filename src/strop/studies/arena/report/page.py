"""The arena's page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from strop.records import Record, canonical
from strop.report import figures
from strop.report.format import percent
from strop.report.page import Page
from strop.report.tables import Column, Table
from strop.studies.arena.arena import Arena
from strop.studies.arena.board import BASELINE, Board
from strop.studies.arena.report import text as words
from strop.studies.arena.report.tables import cost_table, leaderboard, task_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def build_arena_page(
    arena: Arena, found: Board, drawn: Mapping[str, Figure], failed: Mapping[str, str], standing: str, origin: Record
) -> Page:
    """Put the words, the figures and the tables on one page."""
    page = Page("Which attention stays sharp?", lead=words.ARENA_LEAD, provenance=origin)
    section = page.section("The board")
    section.text(f"{standing} {words.BOARD}")
    if found.cells:
        svg = {name: figures.svg(figure) for name, figure in drawn.items()}
        _add_facts(page, found)
        section.table(leaderboard(found), sortable=True)
        section.figure(svg["board"], words.HEAT_CAPTION, alt="Scores of every normaliser in every task")
        _add_sizes(page, found, svg)
        _add_sharpness(page, svg)
        section = page.section("When not to sharpen")
        section.text(describe_controls(found))
        section = page.section("What it costs")
        section.table(cost_table(found), sortable=True, filterable=True)
    _add_method(page, arena, failed)
    page.data("config", canonical(arena))
    return page


def _add_facts(page: Page, found: Board) -> None:
    for entry in found.entries[:3]:
        overall = found.overall(entry)
        if overall is not None:
            page.fact(f"{percent(overall)} %", f"{entry}: mean score of the sharp tasks")


def _add_sizes(page: Page, found: Board, svg: Mapping[str, str]) -> None:
    section = page.section("As sizes grow")
    section.figure(svg["accuracy"], words.CURVES_CAPTION, alt="Accuracy against size by normaliser")
    for table in task_tables(found):
        section.table(table, sortable=True)


def _add_sharpness(page: Page, svg: Mapping[str, str]) -> None:
    section = page.section("How sharp attention is")
    section.text(words.SHARPNESS)
    if "top-weight" in svg:
        section.figure(svg["top-weight"], words.TOP_CAPTION, alt="Top weight against size")
    if "entropy" in svg:
        section.figure(svg["entropy"], words.ENTROPY_CAPTION, alt="Entropy against size")


def _add_method(page: Page, arena: Arena, failed: Mapping[str, str]) -> None:
    section = page.section("How it was done")
    section.text(words.METHOD)
    for line in describe_misfits(arena):
        section.note(line)
    if failed:
        section.heading("Runs that failed and count nowhere")
        section.table(Table([Column("run"), Column("reason")], [list(item) for item in failed.items()]))


def describe_controls(found: Board) -> str:
    """What the controls say, from this board's own tests."""
    lines = []
    for task in found.tasks_of_kind(control=True):
        verdicts = {entry: found.verdict(task, entry) for entry in found.cells[task] if entry != BASELINE}
        better = [entry for entry, verdict in verdicts.items() if verdict == "better"]
        worse = [entry for entry, verdict in verdicts.items() if verdict == "worse"]
        lines.append(
            f"`{task}`: significantly better than softmax: {', '.join(better) or 'none'}; significantly worse: "
            f"{', '.join(worse) or 'none'}."
        )
    return words.CONTROLS + (" " + " ".join(lines) if lines else " This board has no control task.")


def describe_misfits(arena: Arena) -> list[str]:
    """Entrants that do not fit a task, each with its reason."""
    return [f"Not in {', '.join(tasks)}: {reason}." for reason, tasks in arena.misfits().items()]
