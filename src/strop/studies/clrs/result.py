"""What the study gives: records, tables, comparisons with softmax, a page.

region    seen: sizes trained on; between: sizes between them; beyond: larger than any of them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strop.records import Record, canonical, provenance, write, write_csv
from strop.studies.clrs.configs import CLRS_FOLDER
from strop.studies.clrs.study import ClrsStudy

if TYPE_CHECKING:
    from strop.report.tables import Table
    from strop.studies.clrs.comparison import ArmComparison


@dataclass(frozen=True, repr=False)
class ClrsResult:
    """The finished trials of a study. `run_clrs` and `read_clrs` return it.

    Args:
        study: what took part.
        root: the folder of runs.
        records: a flat row for each arm, seed, algorithm, size and digit place (None: all of the answer).
        failures: the reason of every run that failed, by what it was.

    Examples:
        >>> from pathlib import Path
        >>> from strop.studies.clrs import ClrsResult, ClrsStudy
        >>> ClrsResult(ClrsStudy.quick(), Path("runs"), records=(), failures={})
        ClrsResult(0 of 9 models tested. 0 runs failed.)
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
        there = {(row["arm"], row["seed"]) for row in self.records}
        return f"{len(there)} of {len(self.study.arms) * self.study.seeds} models tested."

    def comparisons(self, arm: str, region: str = "beyond", value: str = "exact") -> list[ArmComparison]:
        """An arm against softmax: every algorithm, then their mean.

        Args:
            arm: any but softmax.
            region: seen, between or beyond.
            value: exact or tokens.
        """
        from strop.studies.clrs.comparison import compare_arm

        return compare_arm(self.records, self.study.algorithms, arm, region, value)

    def table(self, value: str = "exact") -> Table:
        """Every algorithm and arm: seen, between and beyond, in per cent, beside what the paper says.

        Args:
            value: exact or tokens.
        """
        from strop.studies.clrs.report.tables import region_table

        return region_table(self, value)

    def tables(self) -> list[Table]:
        """Exact answers, right tokens, comparisons beyond training sizes, digits; none where nothing is finished."""
        from strop.studies.clrs.report.tables import COMPARED, comparison_table, place_table, row_table

        if not self.records:
            return []
        compared = [comparison_table(self, *way) for way in COMPARED]
        digits = [place_table(self, region) for region in ("seen", "beyond")]
        return [self.table(), self.table("tokens"), *compared, *digits, row_table(self)]

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page, and beside it records.jsonl, table.csv and the figures.

        Args:
            path: where the page goes; by default clrs-text/report.html in the folder of runs.

        Returns:
            Where the page is.
        """
        from strop.report import figures
        from strop.studies.clrs.report.page import build_clrs_page
        from strop.studies.clrs.report.pictures import draw_clrs

        path = self.root / CLRS_FOLDER / "report.html" if path is None else Path(path)
        about: Record = {"what": "provenance", **provenance(), "config": canonical(self.study)}
        write(path.with_name("records.jsonl"), [about, *self.records])
        write_csv(path.with_name("table.csv"), self.table().records())
        drawn = draw_clrs(self)
        for name, figure in drawn.items():
            figures.png(figure, path.parent / "figures" / f"{name}.png")
        build_clrs_page(self, drawn, provenance()).write(path)
        return path
