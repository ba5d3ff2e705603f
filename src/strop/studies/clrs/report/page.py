"""The study's page: verdict, curves, comparisons, digits, method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from strop.records import Record, canonical
from strop.report import figures
from strop.report.page import Page
from strop.report.tables import Column, Table
from strop.studies.clrs.report import text as words
from strop.studies.clrs.report.tables import (
    COMPARED,
    comparison_table,
    describe_gap,
    place_table,
    region_table,
    row_table,
)
from strop.studies.clrs.report.verdict import state_verdicts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from strop.studies.clrs.result import ClrsResult

FACTS = {"adaptive": "in training and inference", "softmax>adaptive": "at inference alone"}


def build_clrs_page(result: ClrsResult, drawn: Mapping[str, Figure], origin: Record) -> Page:
    """Put the words, the figures and the tables on one page."""
    page = Page("Classical algorithms as text: does adaptive temperature help?", lead=words.LEAD, provenance=origin)
    section = page.section("What was found")
    section.text(result.standing)
    if result.records:
        for sentence in state_verdicts(result):
            section.note(sentence)
        section.text(words.PAPER)
        _add_facts(page, result)
        _add_sizes(page, result, {name: figures.svg(figure) for name, figure in drawn.items()})
        _add_digits(page, result)
    section = page.section("How it was done")
    section.text(words.METHOD)
    if result.failures:
        section.heading("Runs that failed and count nowhere")
        section.table(Table([Column("run"), Column("reason")], [list(item) for item in result.failures.items()]))
    page.data("config", canonical(result.study))
    return page


def _add_facts(page: Page, result: ClrsResult) -> None:
    for arm, when in FACTS.items():
        if found := result.comparisons(arm) if arm in result.study.arms else []:
            page.fact(describe_gap(found[-1]), f"exact answers beyond training sizes, adaptive temperature {when}")


def _add_sizes(page: Page, result: ClrsResult, svg: Mapping[str, str]) -> None:
    section = page.section("By algorithm and size")
    for value, what in (("exact", "Exact answers"), ("tokens", "Right tokens")):
        section.figure(svg[value], f"{what}. {words.CURVES}", alt=f"{what} against size, a panel for each algorithm")
        section.table(region_table(result, value), sortable=True, filterable=True)
    section = page.section("Against softmax")
    section.text(words.COMPARISONS)
    for value, region in COMPARED:
        section.table(comparison_table(result, value, region), sortable=True, filterable=True)


def _add_digits(page: Page, result: ClrsResult) -> None:
    section = page.section("Digit by digit")
    section.text(words.PLACES)
    for region in ("seen", "beyond"):
        section.table(place_table(result, region), sortable=True)
    section.text(words.ROWS)
    section.table(row_table(result))
