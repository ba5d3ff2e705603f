"""One model's measurement of a suite, kept on disk.

A measurement is named by the suite, the model and what was done to it, so that it is never made twice: the untouched
model is measured once for any number of edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from strop.evaluation.answers import (
    Tick,
    answer_passages,
    compare_answers,
    compare_overall,
    compare_prose,
    score_prose,
)
from strop.evaluation.suite import Suite
from strop.ranks import ranks_here
from strop.records import Record, Run, real, whole
from strop.tasks.answers import Reader
from strop.tasks.prompts import Prompts
from strop.tasks.prose import cut_windows, read_prose


@dataclass(frozen=True)
class Marks:
    """What one model did: a record per prompt, losses per length of prose."""

    answers: list[Record]
    prose: dict[int, list[float]]


def mark_model(
    model: nn.Module, reader: Reader, suite: Suite, prompts: Prompts | None = None, tick: Tick = lambda _: None
) -> Marks:
    """Measure a model as it stands."""
    text = read_prose("test", suite.prose)
    texts = {n: cut_windows(reader, text, n, suite.windows, apart=True) for n in suite.lengths}
    name = suite.task if suite.data is None else Path(suite.data).name
    found = answer_passages(model, reader, suite.passages(prompts), name, tick)
    return Marks(found, {n: score_prose(model, text) for n, text in texts.items()})


def mark_once(run: Run, config: object, mark: Callable[[], Marks]) -> Marks:
    """Measure, or read what was measured before under the same config."""
    ranks = ranks_here()
    if ranks.tell(run.finished):
        return _read_marks(run.records())
    with run.claim() if ranks.leads else nullcontext():  # another evaluation may be measuring the same: wait for it
        if ranks.tell(run.finished):
            return _read_marks(run.records())
        found = mark()
        if not ranks.leads:
            return found
        rows: list[Record] = [{"kind": "answer", **row} for row in found.answers]
        rows += [{"kind": "prose", "tokens": n, "loss": loss} for n, losses in found.prose.items() for loss in losses]
        run.finish(config, rows)
    return found


def compare_marks(before: Marks, after: Marks) -> tuple[list[Record], list[Record], Record]:
    """Put two measurements of one suite side by side: answers by group, prose by length, all answers together."""
    prose = [compare_prose(n, losses, after.prose[n]) for n, losses in before.prose.items()]
    given = before.answers, after.answers
    return compare_answers(*given), prose, compare_overall(*given)


def _read_marks(rows: Sequence[Record]) -> Marks:
    answers = [{key: value for key, value in row.items() if key != "kind"} for row in rows if row["kind"] == "answer"]
    losses: dict[int, list[float]] = {}
    for row in rows:
        if row["kind"] == "prose":
            losses.setdefault(whole(row["tokens"]), []).append(real(row["loss"]))
    return Marks(answers, losses)
