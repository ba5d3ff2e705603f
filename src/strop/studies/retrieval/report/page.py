"""The study's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from strop.records import Record, canonical
from strop.report import figures
from strop.report.format import fixed, number
from strop.report.page import Page
from strop.studies.retrieval.report import text as words
from strop.studies.retrieval.report.groups import RECOMMENDED, ModelGroup, find_best
from strop.studies.retrieval.report.tables import (
    accuracy_table,
    claims_table,
    offsets_table,
    order_table,
    settings_table,
    validation_table,
)
from strop.studies.retrieval.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_RULES = ("softmax", "adaptive", RECOMMENDED)


def state_headline(found: Sequence[ModelGroup]) -> str:
    """The study in one sentence."""
    best = find_best(found)
    last = max(best.sizes)
    accuracy = {rule: f"{fixed(100 * best.mean(rule, last))} %" for rule in SHOWN_RULES}
    return (
        f"Trained on at most {best.trained_size} items, shown {number(last)} ({best.name}): "
        f"softmax {accuracy['softmax']}, adaptive temperature as published {accuracy['adaptive']}, "
        f"{RECOMMENDED} held {accuracy[RECOMMENDED]}."
    )


def build_study_page(study: Study, found: Sequence[ModelGroup], drawn: Mapping[str, Figure], origin: Record) -> Page:
    """Put the words, the figures and the tables on one page."""
    lead = words.STUDY_LEAD.format(study.trained_size)
    page = Page("Softmax is not enough: the max-retrieval study", lead=lead, provenance=origin)
    last, best = max(found[0].sizes), find_best(found)
    for rule in SHOWN_RULES:
        page.fact(f"{fixed(100 * best.mean(rule, last))} %", f"{rule}, {best.name}, at {number(last)} items")
    svg = {name: figures.svg(figure) for name, figure in drawn.items()}
    _add_accuracy(page, study, found, svg)
    _add_claims(page, found)
    _add_attention(page, svg)
    _add_rules(page, study, found, svg)
    _add_order(page, found, svg)
    section = page.section("Where this comes from")
    section.text(words.CERTAINTY)
    section.code(study.command)
    page.data("config", canonical(study))
    return page


def _add_accuracy(page: Page, study: Study, found: Sequence[ModelGroup], svg: Mapping[str, str]) -> None:
    section, trained = page.section("Accuracy as sets grow"), study.trained_size
    section.text(words.ACCURACY.format(trained, 2 * trained, 4 * trained))
    caption = words.ACCURACY_CAPTION.format(trained)
    section.figure(svg["accuracy"], caption, alt="Accuracy falls as sets grow, for every rule")
    for group in found:
        section.table(accuracy_table(group))


def _add_claims(page: Page, found: Sequence[ModelGroup]) -> None:
    section = page.section("What was to be shown")
    section.table(claims_table(found))
    section.table(settings_table(found))


def _add_attention(page: Page, svg: Mapping[str, str]) -> None:
    section = page.section("Attention fades")
    section.text(words.STRIPS)
    for name in (n for n in svg if n.startswith("weights-")):
        caption = f"Setting `{name.removeprefix('weights-')}`, seed 0."
        section.figure(svg[name], caption, alt="The right column fades as n grows")
    section.text(words.DISPERSION)
    section.figure(svg["dispersion"], words.DISPERSION_CAPTION, alt="Entropy rises and top weight falls with n")


def _add_rules(page: Page, study: Study, found: Sequence[ModelGroup], svg: Mapping[str, str]) -> None:
    section = page.section("Which temperature")
    section.text(words.RULES.format(study.trained_size, 4 * study.trained_size))
    section.figure(svg["growth"], words.GROWTH_CAPTION, alt="Inverse temperature against set size, by rule")
    section.table(validation_table(found), sortable=True)
    section.figure(svg["refit"], words.REFIT_CAPTION, alt="Best inverse temperature against entropy, with fits")


def _add_order(page: Page, found: Sequence[ModelGroup], svg: Mapping[str, str]) -> None:
    section = page.section("What temperature cannot mend")
    section.text(words.ORDER)
    section.figure(svg["order"], words.ORDER_CAPTION, alt="Frequency of the right order, and class offsets")
    section.table(order_table(found))
    section.table(offsets_table(found))
