"""A judgement: what others' benchmarks say of a model before and after an edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strop.evaluation.judging.bench import CONTROLS, Bench
from strop.evaluation.verb import Comparison
from strop.evaluation.verdict import SIGNIFICANT, interval, judge
from strop.records import Record, provenance, real
from strop.report.format import number, p_value, percent

if TYPE_CHECKING:
    from strop.report.page import Page
    from strop.report.tables import Table

HOW = """
lm-evaluation-harness drew the documents, generated the answers greedily and scored them. A score is the share of a
document's answers that were written. Intervals at 95 % are Wilson's, on the safe side for shares. p-values flip the
sign of each document's change (McNemar's exact test where scores are 0 or 1), corrected by Holm's rule within each
table. A cell is better or worse if that is below 0.05. ruler_cwe and ruler_fwe count words: controls, for which sharper
attention cannot help.
"""


@dataclass(frozen=True, repr=False)
class Judgement(Comparison):
    """A model before and after, by lm-evaluation-harness.

    Attributes:
        means: A record for each mean over RULER's tasks; none for other suites.
    """

    means: list[Record] = field(default_factory=list)

    @property
    def bench(self) -> Bench:
        """Which tasks, lengths and documents."""
        assert isinstance(self.suite, Bench)
        return self.suite

    @property
    def summary(self) -> str:
        """What changed: the means first, then every cell that became worse."""
        parts = [_say_mean(row) for row in self.means if row["size"] is None or len(self.bench.lengths) == 1]
        judged = [(row, judge(row)) for row in self.answers]
        worse = [f"{row['task']}{_at(row)}" for row, kind in judged if kind == "worse"]
        better = sum(kind == "better" for _, kind in judged)
        if len(judged) == 1:
            return _say_mean(self.answers[0])
        told = f"Significantly better in {better} of {len(judged)} cells"
        return " ".join([*parts, f"{told}; WORSE on {'; '.join(worse)}." if worse else f"{told}, worse in none."])

    def table(self) -> Table:
        """Return scores before and after, for every task and length."""
        return _tabulate(self.answers, "Scores by lm-evaluation-harness, before and after")

    def means_table(self) -> Table:
        """Return means over RULER's tasks, before and after, by length."""
        return _tabulate(self.means, "Means over tasks", change=True)

    def more_tables(self) -> list[Table]:
        """Return what is shown after the scores."""
        return [self.means_table()] if self.means else []

    def page(self) -> Page:
        """Return the report as a page that can be written or put into another."""
        from strop.evaluation.drawings import draw_answers
        from strop.report.page import Page

        made = Page(f"{self.model}, before and after: {self.bench.name}", lead=self.summary, kicker="strop evaluate")
        bench = {key: str(value) for key, value in vars(self.bench).items()}
        made.provenance = {"model": self.model, "edge": self.edge.kind, **bench, **provenance()}
        for row in self.means:
            made.fact(_arrow(row), f"{row['task']}{_at(row)}, {judge(row)}")
        section = made.section("Scores")
        drawn, alt = draw_answers(self.answers, "score, %"), "Scores before and after by length"
        section.figure(drawn, "Scores before and after, with 95 % intervals.", alt=alt)
        section.table(self.table(), sortable=True)
        if self.means:
            made.section("Means over tasks").table(self.means_table())
        made.section("How it was measured").text(HOW)
        return made


def _tabulate(rows: Sequence[Record], caption: str, change: bool = False) -> Table:
    from strop.report.tables import Column, Table

    shown: list[Record] = [
        {
            **row,
            "task": f"{row['task']} (control)" if row["task"] in CONTROLS else row["task"],
            "shown_before": interval(row, "before"),
            "shown_after": interval(row, "after"),
            "changed": f"+{number(row['gains'])} −{number(row['losses'])}",
            "shown_change": _say_change(row) if change else None,
            "judged": judge(row),
        }
        for row in rows
    ]
    columns: list[Column | str] = [
        "task", Column("size", "tokens"), Column("prompts", "documents"),
        Column("shown_before", "before, %", align="right"), Column("shown_after", "after, %", align="right"),
        *([Column("shown_change", "change, points", align="right")] if change else []),
        Column("changed", "documents up, down", align="right"), Column("p", "p", p_value),
        Column("p_holm", "p (Holm)", p_value), Column("judged", ""),
    ]  # fmt: skip
    return Table.of(shown, columns, caption)


def _say_mean(row: Record) -> str:
    name = str(row["task"])
    kind = judge(row)
    told = kind if real(row["p_holm"]) >= SIGNIFICANT else f"significantly {kind}"
    return f"{name[0].upper()}{name[1:]}{_at(row)}: {_arrow(row)}, {told} (p {p_value(real(row['p_holm']))})."


def _say_change(row: Record) -> str:
    mean, low, high = (
        f"{100 * real(row[key]):+.1f}".replace("-", "−") for key in ("change", "change_low", "change_high")
    )
    return f"{mean} ({low} to {high})"


def _arrow(row: Record) -> str:
    return f"{percent(real(row['before']))} → {percent(real(row['after']))} %"


def _at(row: Record) -> str:
    return f" at {number(row['size'])} tokens" if row["size"] else ""
