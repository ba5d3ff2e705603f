"""What an arena gives: records, the board, a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from strop.records import Record, canonical, provenance, write, write_csv, write_text
from strop.studies.arena.arena import Arena
from strop.studies.arena.board import Board, build_board
from strop.studies.arena.configs import ARENA_FOLDER

if TYPE_CHECKING:
    from strop.report.tables import Table


@dataclass(frozen=True, repr=False)
class ArenaResult:
    """The finished trials of an arena, and what they are made into. `run_arena` and `read_arena` return it.

    Args:
        arena: who took part.
        root: the folder of runs.
        records: a flat row for each task, entrant, seed, split and size.
        failures: the reason of every run that failed, by what it was.

    Examples:
        >>> from pathlib import Path
        >>> from strop.studies.arena import Arena, ArenaResult
        >>> result = ArenaResult(Arena.quick(), Path("runs"), records=(), failures={})
        >>> result
        ArenaResult(0 of 12 models tested. 0 runs failed.)
        >>> result.board.tasks
        []
    """

    arena: Arena
    root: Path
    records: tuple[Record, ...]
    failures: Mapping[str, str]

    def __repr__(self) -> str:
        count = f"{len(self.failures)} run{'s' if len(self.failures) != 1 else ''} failed."
        return f"{type(self).__name__}({self.standing} {count})"

    @cached_property
    def board(self) -> Board:
        """Scores, tests and verdicts."""
        return build_board(self.records)

    @property
    def standing(self) -> str:
        """How much of the arena is there, in a sentence."""
        wanted = sum(self.arena.seeds for _ in self.arena.pairs())
        there = sum(cell.seeds for row in self.board.cells.values() for cell in row.values())
        return f"{there} of {wanted} models tested."

    @property
    def leaderboard(self) -> Table:
        """Every entrant: its mean score, its score in each task, its controls."""
        from strop.studies.arena.report.tables import leaderboard

        return leaderboard(self.board)

    def tables(self) -> list[Table]:
        """The tables for a terminal: every task at every size, then the leaderboard; none where nothing is finished."""
        from strop.studies.arena.report.tables import task_tables

        return [*task_tables(self.board), self.leaderboard] if self.board.cells else []

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page, and beside it records.jsonl, board.csv, board.md and the figures.

        Args:
            path: where the page goes; by default arena/report.html in the folder of runs.

        Returns:
            Where the page is.
        """
        from strop.report import figures
        from strop.studies.arena.report.page import build_arena_page
        from strop.studies.arena.report.pictures import draw_board

        path = self.root / ARENA_FOLDER / "report.html" if path is None else Path(path)
        origin, table = provenance(), self.leaderboard
        about: Record = {"what": "provenance", **origin, "config": canonical(self.arena)}
        write(path.parent / "records.jsonl", [about, *self.records])
        write_csv(path.parent / "board.csv", table.records())
        write_text(path.parent / "board.md", f"{table.caption}\n\n{table.markdown()}")
        drawn = draw_board(self.board) if self.records else {}
        for name, figure in drawn.items():
            figures.png(figure, path.parent / "figures" / f"{name}.png")
        build_arena_page(self.arena, self.board, drawn, self.failures, self.standing, origin).write(path)
        return path
