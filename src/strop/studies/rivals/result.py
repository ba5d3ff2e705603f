"""A board's result: a record for every rival and column, from which its table is made."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strop.evaluation.judging.bench import CONTROLS, NEEDLES
from strop.evaluation.paired import flip_p, mcnemar_p, sign_flip_p, wilson_interval
from strop.records import Record, provenance, real, whole
from strop.studies.rivals.board import BoardCell, RivalBoard
from strop.studies.rivals.table import correct, tabulate_rivals

if TYPE_CHECKING:
    from strop.report.page import Page
    from strop.report.tables import Table

RULER = {"RULER needles": NEEDLES, "RULER variables": ("ruler_vt",), "RULER controls": CONTROLS}

HOW = """
Look-up is of similar keys in three wordings that no calibration saw; an answer counts if greedy decoding writes it.
Edges and adapters learned from the same passages of 8 to 24 pairs, in as many steps: edges within a budget of drift,
with a guard and validation; adapters by plain AdamW (held ones within that budget and guard too), the learning rate
chosen on validation. RULER is scored by
lm-evaluation-harness. p-values are paired, against the untouched model, and corrected by Holm's rule over the table:
McNemar's and a sign flip over passages must agree for look-up, a sign flip over documents for RULER. Prose is the
change of loss, in nats a token. Cost is the time of reading 512 tokens against the untouched model's, as the thing was
put on for this board; what bakes costs nothing once baked.
"""


@dataclass(frozen=True)
class Found:
    """What was measured of one rival."""

    name: str
    about: str
    cells: Mapping[BoardCell, Sequence[Record]]


@dataclass(frozen=True)
class BoardResult:
    """A board of one model.

    Attributes:
        model: What the model is called.
        board: Which cells, and what all that learn are given.
        found: What was measured of each rival, the untouched model first.

    Examples:
        >>> from strop.studies.rivals import BoardResult, RivalBoard
        >>> from strop.studies.rivals.board import COST
        >>> from strop.studies.rivals.result import Found
        >>> found = [Found("untouched", "as it is", {COST: [{"before": 1.0, "after": 1.0}]})]
        >>> BoardResult("tiny", RivalBoard(), found).records()[0]["value"]
        1.0
    """

    model: str
    board: RivalBoard
    found: Sequence[Found]

    def records(self) -> list[Record]:
        """Return a record for every rival and column; p-values are corrected over the table."""
        base = self.found[0].cells
        return correct(row for one in self.found for row in self._describe(one, base))

    def table(self) -> Table:
        """Return the board: a line for every rival."""
        return tabulate_rivals(self.records())

    def page(self) -> Page:
        """Return the board as a page."""
        from strop.report.page import Page

        made = Page(
            f"Rivals on {self.model}", lead="What else could be done, on the same footing.", kicker="strop rivals"
        )
        made.provenance = {"model": self.model, **{k: str(v) for k, v in vars(self.board).items()}, **provenance()}
        made.section("Board").table(self.table(), sortable=True)
        made.section("How it was measured").text(HOW)
        return made

    def _describe(self, one: Found, base: Mapping[BoardCell, Sequence[Record]]) -> list[Record]:
        same = one.cells is base
        rows: list[Record] = []
        for cell in self.board.cells():
            if cell in one.cells and cell in base:
                rows.append({"column": str(cell), **_compare(cell, base[cell], one.cells[cell], same)})
        for name, tasks in RULER.items():
            for n in self.board.tokens:
                cells = [BoardCell(task, n) for task in tasks]
                if all(cell in one.cells and cell in base for cell in cells):
                    before, after = ([row for cell in cells for row in side[cell]] for side in (base, one.cells))
                    rows.append({"column": f"{name} {n}", **_score(before, after, same)})
        made = one.cells.get(BoardCell("made"), [{}])[0]
        for key in ("numbers", "seconds"):
            rows.append({"column": key, "value": made.get(key)})
        empty: Record = dict.fromkeys(("value", "low", "high", "prompts", "p", "p_holm"))
        told = {"note": made.get("note"), "bakes": made.get("bakes")}
        head: Record = {"model": self.model, "rival": one.name, "about": one.about}
        return [{**head, **empty, **row, **told} for row in rows]


def _compare(cell: BoardCell, before: Sequence[Record], after: Sequence[Record], same: bool) -> Record:
    if cell.kind == "cost":
        ratio = min(real(row["after"]) for row in after) / min(real(row["before"]) for row in after)
        return {"value": ratio}
    if cell.kind == "prose":
        changes = [real(now["loss"]) - real(then["loss"]) for then, now in zip(before, after, strict=True)]
        if same:
            return {"value": statistics.fmean(real(row["loss"]) for row in after), "prompts": len(after)}
        half = 1.959964 * statistics.stdev(changes) / len(changes) ** 0.5 if len(changes) > 1 else 0.0
        mean = statistics.fmean(changes)
        return {"value": mean, "low": mean - half, "high": mean + half, "prompts": len(after)}
    then, now = ([bool(row["exact"]) for row in side] for side in (before, after))
    low, high = wilson_interval(sum(now), len(now))
    p = max(mcnemar_p(then, now), sign_flip_p(then, now, [whole(row["passage"]) for row in after]))
    return {"value": sum(now) / len(now), "low": low, "high": high, "prompts": len(now), "p": None if same else p}


def _score(before: Sequence[Record], after: Sequence[Record], same: bool) -> Record:
    """Documents of several tasks together, the same on both sides."""
    assert [row["document"] for row in before] == [row["document"] for row in after]
    scores = [real(row["score"]) for row in after]
    changes = [real(now["score"]) - real(then["score"]) for then, now in zip(before, after, strict=True)]
    low, high = wilson_interval(sum(scores), len(scores))
    p = None if same else flip_p(changes)
    return {"value": statistics.fmean(scores), "low": low, "high": high, "prompts": len(scores), "p": p}
