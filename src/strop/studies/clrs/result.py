"""What the study gives: records, a table of exact answers by algorithm, arm and region, and tests against softmax.

region    seen: sizes trained on; between: sizes between them; beyond: larger than any of them
p         two-sided paired t-test over seeds against softmax on the mean over sizes beyond (same questions, same initial
          weights), then Holm's correction over the arms of an algorithm
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strop.records import Record, provenance, real, whole, write, write_csv
from strop.studies.clrs.configs import CLRS_FOLDER
from strop.studies.clrs.study import ClrsStudy

if TYPE_CHECKING:
    from strop.report.tables import Table

BASELINE_ARM = "softmax"
REGIONS = ("seen", "between", "beyond")
PAPER_EXCEPTIONS = ("heapsort", "mst_kruskal", "bubble_sort")
"""Where the paper does not find adaptive temperature better at larger sizes; on most others it does."""


@dataclass(frozen=True, repr=False)
class ClrsResult:
    """The finished trials of a study. `run_clrs` and `read_clrs` return it.

    Args:
        study: what took part.
        root: the folder of runs.
        records: a flat row for each algorithm, arm, seed, size and digit place (None: all of the answer).
        failures: the reason of every run that failed, by what it was.

    Examples:
        >>> from pathlib import Path
        >>> from strop.studies.clrs import ClrsResult, ClrsStudy
        >>> ClrsResult(ClrsStudy.quick(), Path("runs"), records=(), failures={})
        ClrsResult(0 of 12 models tested. 0 runs failed.)
    """

    study: ClrsStudy
    root: Path
    records: tuple[Record, ...]
    failures: Mapping[str, str]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.standing} {len(self.failures)} runs failed.)"

    @property
    def standing(self) -> str:
        """How much of the study is there, in a sentence."""
        there = {(row["algorithm"], row["arm"], row["seed"]) for row in self.records}
        return f"{len(there)} of {len(list(self.study.pairs())) * self.study.seeds} models tested."

    def scores(self, algorithm: str, arm: str, region: str, value: str = "exact") -> dict[int, float]:
        """Seed → mean over the sizes of a region."""
        found: dict[int, list[float]] = {}
        for row in self.records:
            if (row["algorithm"], row["arm"], row["region"], row["place"]) == (algorithm, arm, region, None):
                found.setdefault(whole(row["seed"]), []).append(real(row[value]))
        return {seed: statistics.fmean(values) for seed, values in sorted(found.items())}

    def p_values(self, algorithm: str) -> dict[str, float]:
        """Arm → p against softmax beyond the training sizes."""
        from strop.evaluation.paired import holm
        from strop.studies.significance import paired_p

        base, raw = self.scores(algorithm, BASELINE_ARM, "beyond"), dict[str, float]()
        for arm in self.study.arms:
            mine = self.scores(algorithm, arm, "beyond")
            if arm != BASELINE_ARM and mine and mine.keys() == base.keys():
                p = paired_p(list(mine.values()), list(base.values()))
                raw |= {} if p is None else {arm: p}
        return dict(zip(raw, holm(list(raw.values())), strict=True))

    def table(self, value: str = "exact") -> Table:
        """Every algorithm and arm: seen, between and beyond, in per cent, beside what the paper says."""
        from strop.report.format import mean_sd, p_value
        from strop.report.tables import Column, Table

        rows: list[list[object]] = []
        for algorithm in self.study.algorithms:
            tested = self.p_values(algorithm)
            for arm in self.study.arms:
                at = [list(self.scores(algorithm, arm, region, value).values()) for region in REGIONS]
                if any(at):
                    paper = "not better" if algorithm in PAPER_EXCEPTIONS else "better on most"
                    said = paper if arm == "adaptive" else None
                    cells = [mean_sd(values, scale=100) for values in at]
                    rows.append([algorithm, arm, *cells, len(at[-1]), p_value(tested.get(arm)), said])
        heads = [Column(region, align="right") for region in REGIONS]
        columns = [Column("algorithm"), Column("arm"), *heads, Column("seeds"), Column("p", "p, beyond, Holm"),
                   Column("paper", "the paper, larger sizes")]  # fmt: skip
        words = {"exact": "Exact answers, %", "tokens": "Right tokens, %"}[value]
        return Table(columns, rows, f"{words}, by size: seen in training, between, beyond")

    def write_records(self, path: str | Path | None = None) -> Path:
        """Write records.jsonl and, beside it, table.csv; by default in the folder of runs."""
        path = self.root / CLRS_FOLDER / "records.jsonl" if path is None else Path(path)
        write(path, [{"what": "provenance", **provenance()}, *self.records])
        write_csv(path.with_name("table.csv"), self.table().records())
        return path
