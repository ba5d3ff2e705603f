"""The report of an edge: accuracy before and after by size, prose, and which heads were changed and by how much.

Takes records only (answers.py writes them), so that a report can be made again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from strop.records import Record, provenance, real
from strop.report import figures
from strop.report.format import fixed, number, p_value, percent
from strop.report.page import Page
from strop.report.tables import Column, Table

SIGNIFICANT = 0.05

FEWEST = 6
"""Passages below which the test over passages cannot reach 0.05: 2/2⁵ is 0.06."""

HOW = """
Built-in prompts are of the test split, which calibration never saw. An answer counts if greedy decoding writes it.
Intervals are Wilson's at 95 %. The first p-value is McNemar's exact test over prompts; the second flips the sign of
each passage's change as a whole, since the questions of one passage are not independent. Prose is judged by the loss
of the next token on texts that calibration did not read.
"""


def make_comparison_page(
    answers: Sequence[Record],
    prose: Sequence[Record],
    heads: Sequence[Mapping[str, Any]],
    speed: Record,
    settings: Record,
) -> Page:
    """Return the report of one comparison; `settings` says of which model, edge and prompts."""
    made = Page(f"{settings['model']}, before and after", lead=write_verdict(answers, prose), kicker="strop evaluate")
    made.provenance = {**settings, **provenance()}
    done = Counter(str(row["done"]) for row in heads)
    made.fact(str(len(heads) - done["left alone"]), f"of {len(heads)} heads were changed")
    for row in prose:
        made.fact(_signed(row["change"]), f"nats a token on prose of {number(row['tokens'])} tokens")
    section = made.section("Answers")
    section.figure(
        _curves(answers), "Exact answers by size, with 95 % intervals.", alt="Accuracy before and after by size"
    )
    section.table(tabulate_answers(answers), sortable=True)
    section = made.section("Ordinary prose")
    section.table(tabulate_prose(prose))
    section.text(f"Generation: {fixed(_number(speed['before']), 1)} tokens a second before, "
                 f"{fixed(_number(speed['after']), 1)} after.")  # fmt: skip
    _heads(made, heads)
    made.section("How it was measured").text(HOW)
    return made


def write_verdict(answers: Sequence[Record], prose: Sequence[Record]) -> str:
    """Say in one or two sentences what the edge gained and cost, worse sizes first of all."""
    better = [row for row in answers if _clear(row) and _number(row["after"]) > _number(row["before"])]
    worse = [row for row in answers if _clear(row) and _number(row["after"]) < _number(row["before"])]
    change = max((_number(row["change"]) for row in prose), default=math.nan)
    places = "; ".join(f"{row['task']} “{row['phrasing']}” at {row['size']}" for row in worse)
    harm = f" WORSE on {places}." if worse else " Significantly worse on none."
    gain = f"Significantly better on {len(better)} of {len(answers)} groups of prompts."
    few = any(_number(row["passages"]) < FEWEST for row in answers)
    more = f" With fewer than {FEWEST} passages no group can be significant: ask for more prompts." if few else ""
    return f"{gain}{harm} Prose: {_signed(change)} nats a token at worst.{more}"


def tabulate_answers(answers: Sequence[Record]) -> Table:
    """Return accuracy before and after, for every task, phrasing and size."""
    rows: list[Record] = [
        {
            **row,
            "shown_before": _interval(row, "before"),
            "shown_after": _interval(row, "after"),
            "changed": f"+{row['gains']} −{row['losses']}",
        }
        for row in answers
    ]
    columns: list[Column | str] = [
        "task", "phrasing", "size", "prompts",
        Column("shown_before", "before, %", align="right"), Column("shown_after", "after, %", align="right"),
        Column("changed", "answers", align="right"),
        Column("p_mcnemar", "p (prompts)", p_value), Column("p_passages", "p (passages)", p_value),
        Column("nats_before", "nats before"), Column("nats_after", "nats after"),
    ]  # fmt: skip
    return Table.of(rows, columns, "Exact answers, before and after")


def tabulate_prose(prose: Sequence[Record]) -> Table:
    """Return the loss on prose before and after, by length."""
    columns: list[Column | str] = [
        "tokens", "windows", Column("before", "before, nats", _four), Column("after", "after, nats", _four),
        Column("change", "change", _signed), Column("standard_error", "standard error", _four),
    ]  # fmt: skip
    return Table.of(prose, columns, "Loss on ordinary prose")


def _curves(answers: Sequence[Record]) -> str:
    phrasings = list(dict.fromkeys((row["task"], row["phrasing"]) for row in answers))
    with figures.style():
        fig, axes = figures.new(width=7.5, height=2.8, columns=len(phrasings), sharey=True, squeeze=False)
        for axis, (task, phrasing) in zip(axes[0], phrasings, strict=True):
            rows = [row for row in answers if (row["task"], row["phrasing"]) == (task, phrasing)]
            sizes = [_number(row["size"]) for row in rows]
            for i, side in enumerate(("before", "after")):
                shown = [100 * _number(row[side]) for row in rows]
                low = [100 * (_number(row[side]) - _number(row[f"{side}_low"])) for row in rows]
                high = [100 * (_number(row[f"{side}_high"]) - _number(row[side])) for row in rows]
                error = [[max(0.0, e) for e in low], [max(0.0, e) for e in high]]
                axis.errorbar(sizes, shown, error, color=figures.colour(i), marker="o", capsize=2, label=side)
            axis.set_title(f"{task}: {phrasing}")
            axis.set_xlabel("size")
            axis.set_ylim(-3, 103)
        axes[0][0].set_ylabel("exact answers, %")
        axes[0][0].legend()
        return figures.svg(fig)


def _heads(made: Page, heads: Sequence[Mapping[str, Any]]) -> None:
    section = made.section("Heads")
    section.figure(_map(heads), "log₂ β of every head at 1,024 keys and 4 nats: above 0 sharper, below softer.",
                   alt="Inverse temperature by layer and head")  # fmt: skip
    ordered = sorted(heads, key=lambda row: -abs(math.log(max(row["beta"], 1e-6))) - abs(row["output"] - 1))
    columns: list[Column | str] = [
        "layer",
        "head",
        Column("beta", "β"),
        Column("output", "output scale"),
        Column("done", "what was done"),
    ]
    section.table(Table.of([dict(row) for row in ordered], columns), sortable=True, filterable=True)


def _map(heads: Sequence[Mapping[str, Any]]) -> str:
    layers, width = 1 + max(row["layer"] for row in heads), 1 + max(row["head"] for row in heads)
    values = [[math.nan] * layers for _ in range(width)]
    for row in heads:
        values[row["head"]][row["layer"]] = math.log2(max(row["beta"], 1e-3))
    limit = max(0.1, *(abs(v) for line in values for v in line if not math.isnan(v)))
    with figures.style():
        fig, axis = figures.new(width=7.5, height=1.4 + 0.16 * width)
        image = axis.imshow(values, cmap=figures.DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
        axis.set_xlabel("layer")
        axis.set_ylabel("head")
        fig.colorbar(image, ax=axis, label="log₂ β")
        return figures.svg(fig)


def _clear(row: Record) -> bool:
    """Both tests must agree."""
    return max(_number(row["p_mcnemar"]), _number(row["p_passages"])) < SIGNIFICANT


def _interval(row: Record, side: str) -> str:
    low, high = percent(_number(row[f"{side}_low"])), percent(_number(row[f"{side}_high"]))
    return f"{percent(_number(row[side]))} ({low}–{high})"


def _number(value: object) -> float:
    return real(value)


def _four(value: object) -> str:
    return fixed(_number(value), 4)


def _signed(value: object) -> str:
    return ("+" if _number(value) >= 0 else "−") + fixed(abs(_number(value)), 4)
