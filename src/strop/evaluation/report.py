"""The report of an edge: the result, accuracy before and after by size, prose, and what was done to which heads.

Takes records only (answers.py writes them), so that a report can be made again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from strop.evaluation.drawings import draw_answers, draw_heads
from strop.evaluation.verdict import interval, judge, name_prompts, signed, write_verdict
from strop.records import Record, provenance, real
from strop.report.format import fixed, number, p_value, percent
from strop.report.page import Page
from strop.report.tables import Column, Table

HOW = """
Built-in prompts are of the test split, which calibration never saw. An answer counts if greedy decoding writes it.
Intervals are Wilson's at 95 %, which take prompts as independent. The first p-value is McNemar's exact test over
prompts; the second flips the sign of each passage's change as a whole, since the questions of one passage are not
independent. A result is better or worse if both are below 0.05, and otherwise not told apart. Prose is judged by the
loss of the next token on texts that calibration did not read. Where sizes were not named, larger sizes have fewer
passages with more questions, and their p-values are the larger of the two, corrected by Holm over sizes.
"""


def make_comparison_page(
    overall: Record,
    answers: Sequence[Record],
    prose: Sequence[Record],
    heads: Sequence[Mapping[str, Any]],
    settings: Record,
    by_size: Sequence[Record] = (),
) -> Page:
    """Return the report of one comparison; `settings` says of which model, edge and prompts."""
    lead = write_verdict(overall, answers, prose, by_size)
    made = Page(f"{settings['model']}, before and after", lead=lead, kicker="strop evaluate")
    made.provenance = {**settings, **provenance()}
    _facts(made, overall, prose)
    if by_size:
        grown = made.section("As inputs grow")
        words = "Exact answers before and after at every size, all phrasings together, with 95 % intervals."
        grown.figure(draw_answers(by_size), words, alt="Accuracy before and after as inputs grow")
        grown.table(tabulate_sizes(by_size))
    section = made.section("Answers")
    section.figure(
        draw_answers(answers),
        "Exact answers before and after, with 95 % intervals.",
        alt="Accuracy before and after by size",
    )
    section.table(tabulate_answers(answers), sortable=True)
    made.section("Ordinary prose").table(tabulate_prose(prose))
    _heads(made, heads)
    made.section("How it was measured").text(HOW)
    return made


def _facts(made: Page, overall: Record, prose: Sequence[Record]) -> None:
    shares = " → ".join(percent(real(overall[side])) for side in ("before", "after"))
    made.fact(f"{shares} %", f"exact answers of {number(overall['prompts'])} prompts, {judge(overall)}")
    made.fact(count_changes(overall), "answers gained and lost")
    for row in prose:
        made.fact(signed(row["change"]), f"nats a token on prose of {number(row['tokens'])} tokens")


def tabulate_answers(answers: Sequence[Record]) -> Table:
    """Return accuracy before and after, for every task, phrasing and size."""
    rows: list[Record] = [
        {
            **row,
            "name": name_prompts(row),
            "size": row["size"] or None,
            "shown_before": interval(row, "before"),
            "shown_after": interval(row, "after"),
            "changed": count_changes(row),
        }
        for row in answers
    ]
    columns: list[Column | str] = [
        Column("name", "prompts"), "size", Column("prompts", "asked", rank=4.5),
        Column("shown_before", "before, %", align="right"), Column("shown_after", "after, %", align="right"),
        Column("changed", "answers", align="right"),
        Column("p_mcnemar", "p (prompts)", p_value), Column("p_passages", "p (passages)", p_value),
        Column("nats_before", "nats before"), Column("nats_after", "nats after"),
    ]  # fmt: skip
    return Table.of(rows, columns, "Exact answers, before and after")


def tabulate_sizes(by_size: Sequence[Record]) -> Table:
    """Return accuracy before and after at every size, all phrasings together, and how many times the first it is."""
    first = real(by_size[0]["size"])
    rows: list[Record] = [
        {
            **row,
            "times": f"{real(row['size']) / first:g} ×",
            "shown_before": interval(row, "before"),
            "shown_after": interval(row, "after"),
            "changed": count_changes(row),
            "judged": judge(row),
        }
        for row in by_size
    ]
    columns: list[Column | str] = [
        "size", Column("times", "of the first", align="right"), Column("prompts", "asked", rank=4.5),
        Column("shown_before", "before, %", align="right"), Column("shown_after", "after, %", align="right"),
        Column("changed", "answers", align="right"), Column("p_holm", "p (Holm)", p_value),
        Column("judged", "after is"),
    ]  # fmt: skip
    return Table.of(rows, columns, f"Exact answers to {by_size[0]['task']} as inputs grow, all phrasings together")


def count_changes(row: Record) -> str:
    """Return how many answers were gained and lost: +10 −2."""
    return f"+{number(row['gains'])} −{number(row['losses'])}"


def tabulate_prose(prose: Sequence[Record]) -> Table:
    """Return the loss on prose before and after, by length."""
    columns: list[Column | str] = [
        "tokens", "windows", Column("before", "before, nats", _four), Column("after", "after, nats", _four),
        Column("change", "change", signed), Column("standard_error", "standard error", _four),
    ]  # fmt: skip
    return Table.of(prose, columns, "Loss on ordinary prose")


def _heads(made: Page, heads: Sequence[Mapping[str, Any]]) -> None:
    section = made.section("Heads")
    changed = sum(row["done"] != "left alone" for row in heads)
    turned = sum("turned" in row["done"] for row in heads)
    edited = f" It edits the query of {number(turned)}: there the order of the keys may change." if turned else ""
    section.text(f"The edge changes {number(changed)} of {number(len(heads))} heads.{edited}")
    if any(row["beta"] != 1 for row in heads):
        words = "log₂ β of every head at 1,024 keys and 4 nats: above 0 sharper, below softer."
        section.figure(draw_heads(heads, "beta", "β"), words, alt="Inverse temperature by layer and head")
    elif any(row["output"] != 1 for row in heads):
        words = "log₂ of what every head's output is multiplied by: above 0 louder, below quieter."
        section.figure(draw_heads(heads, "output", "output scale"), words, alt="Output scale by layer and head")
    ordered = sorted(heads, key=lambda row: -abs(math.log(max(row["beta"], 1e-6))) - abs(row["output"] - 1))
    columns: list[Column | str] = [
        "layer",
        "head",
        Column("beta", "β"),
        Column("output", "output scale"),
        Column("done", "what was done"),
    ]
    section.table(Table.of([dict(row) for row in ordered], columns), sortable=True, filterable=True)


def _four(value: object) -> str:
    return fixed(real(value), 4)
