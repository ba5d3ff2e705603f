"""`judge_model`: what `strop.evaluate` does with a suite."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from strop._checks import require
from strop._progress import show_progress
from strop.errors import StropWarning
from strop.evaluation.judging.bench import Bench, BenchCell
from strop.evaluation.judging.compare import compare_cells, compare_means
from strop.evaluation.judging.estimate import estimate_seconds
from strop.evaluation.judging.harness import open_harness
from strop.evaluation.judging.judgement import Judgement
from strop.evaluation.judging.marks import Change, Marker, describe
from strop.evaluation.timing import WORTH_SAYING
from strop.patching.freeze import freeze
from strop.pretrained.load import count_positions, go_beyond
from strop.report.format import duration

if TYPE_CHECKING:
    from torch import nn

    from strop._progress import Bar
    from strop.edges.edge import Edge
    from strop.evaluation.judging.harness import Harness
    from strop.pretrained.load import Opened
    from strop.records import Record


def judge_model(
    opened: Opened, edges: Sequence[Edge | None], bench: Bench, beyond: bool, runs: str | Path | None,
    progress: bool | None,
) -> Judgement:  # fmt: skip
    """Score a model without the edge (or with another) and with it, or read what was scored."""
    bench = _fit(bench, opened.model, beyond)
    for one in edges:
        if one is not None:
            one.check(opened.model)
    marker = Marker(opened.model, bench, describe(opened.model), runs)
    changes = [make_change(opened.model, one) for one in edges]
    measure_cells(marker, opened, changes, progress)
    before, after = (marker.scores(name) for name, _ in changes)
    means = compare_means(before, after)
    overall: Record = dict(means[0]) if means else {}
    edge = edges[1]
    assert edge is not None
    folder = None if runs is None else marker.run(changes[1][0], bench.cells()[-1]).folder
    found = compare_cells(before, after)
    return Judgement(opened.name, edge, bench, found, [], overall, folder, means=means)


def make_change(model: nn.Module, edge: Edge | None) -> Change:
    """Return an edge as something that is done to a model."""
    return (None, nullcontext) if edge is None else (edge.digest, lambda: edge.put_on(model))


def measure_cells(marker: Marker, opened: Opened, changes: Sequence[Change], progress: bool | None) -> None:
    """Measure all cells that are missing; an interrupted judgement goes on with the cell it was at."""
    missing = marker.missing(changes)
    if not missing:
        return
    count = marker.bench.documents
    with (
        freeze(opened.model),
        open_harness(opened.tokenizer, offline=marker.bench.name == "ruler") as harness,
        show_progress("judging", len(missing) * count, progress) as bar,
    ):
        _announce(opened.model, [cell for _, cell in missing], count)
        drawn: dict[BenchCell, object] = {}

        def judge(model: nn.Module, cell: BenchCell) -> list[Record]:
            return _score(harness, model, cell, marker.bench, drawn, bar)

        for name, cell in marker.measure(changes, judge):
            bar.update(text=f"{cell}, {'untouched' if name is None else 'changed'}")


def _score(
    harness: Harness, model: nn.Module, cell: BenchCell, bench: Bench, drawn: dict[BenchCell, object], bar: Bar
) -> list[Record]:
    """Score a cell; its documents are drawn once for all changes."""
    if cell not in drawn:
        drawn.clear()
        drawn[cell] = harness.draw(cell, bench.seed)
    return harness.score(model, drawn[cell], cell, bench.documents, bar.advance)


def _announce(model: nn.Module, cells: Sequence[BenchCell], documents: int) -> None:
    seconds = estimate_seconds(model, cells, documents)
    if seconds is not None and seconds > WORTH_SAYING:
        words = f"{len(cells)} cells of {documents} documents are to be measured: about {duration(seconds)}."
        warnings.warn(words, StropWarning, stacklevel=5)


def _fit(bench: Bench, model: nn.Module, beyond: bool) -> Bench:
    """The bench at the lengths that the model has positions for; `beyond` keeps them all, with a warning."""
    if beyond and bench.lengths:
        go_beyond(bench.lengths, model)
        return bench
    most = count_positions(model)
    fitting = tuple(n for n in bench.lengths if most is None or n <= most)
    rule = f"lengths must be at most the model's {most} positions"
    require(bool(fitting) or not bench.lengths, rule, min(bench.lengths, default=0), "Or ask for --beyond")
    if fitting != bench.lengths:
        words = f"The model has {most:,} positions: it is judged at {', '.join(f'{n:,}' for n in fitting)} tokens."
        warnings.warn(words, StropWarning, stacklevel=4)
    return replace(bench, lengths=fitting)
