"""One model's scores, cell by cell. A finished cell is never measured again, whatever else is asked for beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import nn

from strop.evaluation.judging.bench import Bench, BenchCell
from strop.records import Record, Run

Change = tuple[str | None, Callable[[], AbstractContextManager[object]]]
"""What is done to a model: the name it is kept under (None: nothing is done) and what puts it on."""

Judge = Callable[[nn.Module, BenchCell], list[Record]]


@dataclass
class Marker:
    """Measures a model with changes on it, and keeps what it finds."""

    model: nn.Module
    bench: Bench
    identity: Mapping[str, object]
    runs: str | Path | None
    _found: dict[tuple[str | None, BenchCell], list[Record]] = field(default_factory=dict)

    def config(self, change: str | None, cell: BenchCell) -> dict[str, object]:
        """Return what a cell's scores depend on."""
        bench = {"documents": self.bench.documents, "seed": self.bench.seed, "lm_eval": version("lm_eval")}
        return {"judge": asdict(cell), **bench, **self.identity, "edge": change}

    def run(self, change: str | None, cell: BenchCell) -> Run:
        """Return where a cell's scores are kept."""
        return Run.of(self.config(change, cell), "evaluate", self.runs or "")

    def missing(self, changes: Sequence[Change]) -> list[tuple[Change, BenchCell]]:
        """Return what has not been measured yet, cell by cell."""
        every = [(change, cell) for cell in self.bench.cells() for change in changes]
        return [one for one in every if self.runs is None or not self.run(one[0][0], one[1]).finished]

    def measure(self, changes: Sequence[Change], judge: Judge) -> Iterator[tuple[str | None, BenchCell]]:
        """Measure what is missing; say before each cell which."""
        for (name, put_on), cell in self.missing(changes):
            yield name, cell
            if self.runs is None:
                with put_on():
                    self._found[name, cell] = judge(self.model, cell)
                continue
            run = self.run(name, cell)
            with run.claim():  # another process may be measuring the same cell: wait for it
                if not run.finished:
                    with put_on():
                        run.finish(self.config(name, cell), judge(self.model, cell))

    def scores(self, change: str | None) -> list[Record]:
        """Return a record for each document of each cell."""
        rows: list[Record] = []
        for cell in self.bench.cells():
            found = self._found[change, cell] if self.runs is None else self.run(change, cell).records()
            rows += [{**row, "tokens": cell.tokens} for row in found]
        return rows


def describe(model: nn.Module) -> dict[str, Any]:
    """Return which model it is that is judged."""
    from strop.patching.identity import dtype_of, fingerprint

    return {"model": fingerprint(model), "dtype": dtype_of(model)}
