"""What a run of the study gives: records, tables, a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from strop.records import Record, canonical, provenance, write, write_csv, write_text
from strop.studies.retrieval.jobs import ModelRef
from strop.studies.retrieval.report.claims import Claim, judge_claims
from strop.studies.retrieval.report.groups import ModelGroup, sort_into_groups
from strop.studies.retrieval.study import STUDY_FOLDER, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from strop.report.page import Page
    from strop.report.tables import Table


@dataclass(frozen=True, repr=False)
class Reproduction:
    """The study's records, and what they are made into. `reproduce` returns it.

    Args:
        study: what was run.
        records: what was found, a flat row each: fits, surveys, then accuracies and statistics of every size.
        models: the trained weights.
        root: the folder of runs.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from strop.engine import Serial
        >>> from strop.studies.retrieval import Study, reproduce
        >>> tiny = Study(settings=("decay",), seeds=1, sizes=(16,), sets=8, survey_sets=24, steps=5)
        >>> with TemporaryDirectory() as folder:
        ...     result = reproduce(tiny, folder, Serial())
        >>> result
        Reproduction(strop reproduce --settings decay --seeds 1 --sets 8 --sizes 16 --steps 5: 1 model)
        >>> [(group.name, group.seeds, group.sizes) for group in result.groups]
        [('decay', 1, [16])]
    """

    study: Study
    records: tuple[Record, ...]
    models: tuple[ModelRef, ...]
    root: Path

    def __repr__(self) -> str:
        count = f"{len(self.models)} model{'s' if len(self.models) != 1 else ''}"
        return f"{type(self).__name__}({self.study.command}: {count})"

    @cached_property
    def groups(self) -> list[ModelGroup]:
        """The accuracies of each setting and kind of weights."""
        return sort_into_groups(self.records)

    @cached_property
    def claims(self) -> list[Claim]:
        """What the study set out to show, and whether it did."""
        return judge_claims(self.groups)

    @property
    def headline(self) -> str:
        """The study in one sentence."""
        from strop.studies.retrieval.report.page import state_headline

        return state_headline(self.groups)

    def accuracy_rows(self) -> list[Record]:
        """The records of accuracy: one for each group, seed, size and rule."""
        return [row for row in self.records if "rule" in row and "what" not in row and not row["grid"]]

    def tables(self) -> list[Table]:
        """The tables for a terminal: accuracy of each group, settings, claims."""
        from strop.studies.retrieval.report.tables import accuracy_table, claims_table, settings_table

        accuracies = [accuracy_table(group, spread=False) for group in self.groups]
        return [*accuracies, settings_table(self.groups), claims_table(self.groups)]

    @cached_property
    def page(self) -> Page:
        """The page with all tables and figures."""
        from strop.studies.retrieval.report.page import build_study_page

        return build_study_page(self.study, self.groups, self._figures, self._origin)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page, and beside it records.jsonl, table1.csv, table1.md and the figures.

        Args:
            path: where the page goes; by default reproduce/report.html in the folder of runs.

        Returns:
            Where the page is.
        """
        from strop.report import figures
        from strop.studies.retrieval.report.tables import accuracy_table

        path = self.root / STUDY_FOLDER / "report.html" if path is None else Path(path)
        about: Record = {"what": "provenance", **self._origin, "config": canonical(self.study)}
        write(path.parent / "records.jsonl", [about, *self.records])
        tables = [accuracy_table(group) for group in self.groups]
        write_csv(path.parent / "table1.csv", [{"models": t.caption, **row} for t in tables for row in t.records()])
        write_text(path.parent / "table1.md", "\n".join(f"{t.caption}\n\n{t.markdown()}" for t in tables))
        for name, figure in self._figures.items():
            figures.png(figure, path.parent / "figures" / f"{name}.png")
        self.page.write(path)
        return path

    @cached_property
    def _origin(self) -> Record:
        return provenance()

    @cached_property
    def _figures(self) -> dict[str, Figure]:
        from strop.studies.retrieval.report.pictures import draw_figures

        return draw_figures(self.groups, self.models)
