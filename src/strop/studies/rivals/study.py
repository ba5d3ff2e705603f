"""`run_board`: learn what is to be learned, measure what is missing, return what there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from strop._checks import require
from strop._progress import show_progress
from strop.evaluation.judging.marks import Marker, describe
from strop.patching.freeze import freeze
from strop.records import Record, Run
from strop.studies import RUNS
from strop.studies.rivals.board import BoardCell, RivalBoard
from strop.studies.rivals.measurement import measure_cell
from strop.studies.rivals.result import BoardResult, Found
from strop.studies.rivals.rival import RIVALS, RULER, UNTOUCHED, Rival, find_rival

if TYPE_CHECKING:
    from strop.pretrained.load import Opened
    from strop.studies.rivals.made import Made

EXPERIMENT = "rivals"
Say = Callable[[str], None]


def run_board(
    opened: Opened, board: RivalBoard, rivals: Sequence[str] = tuple(RIVALS), runs: str | Path = RUNS,
    show: bool = False, progress: bool | None = None,
) -> BoardResult:  # fmt: skip
    """Measure every rival on every cell, the untouched model first.

    Args:
        opened: The model, its tokeniser and its name.
        board: Which cells, and what all that learn are given.
        rivals: Names of rivals, or files of edges.
        runs: Where runs are kept.
        show: Learn and measure nothing: return what there is.
        progress: Show a bar. None: on a terminal and in a notebook.

    Examples:
        >>> from strop.pretrained import Pretrained
        >>> from strop.studies.rivals import RivalBoard, run_board
        >>> smollm2 = Pretrained("smollm2").open()  # doctest: +SKIP
        >>> run_board(smollm2, RivalBoard(tokens=()), ["log-n", "lora-8-q"]).table()  # doctest: +SKIP
    """
    named = [find_rival(name) for name in dict.fromkeys([UNTOUCHED, *rivals])]
    sitting = _Sitting(opened, board, Path(runs), show)
    found: list[Found] = []
    with freeze(opened.model), show_progress("rivals", None, progress) as bar:
        for rival in named:
            bar.update(text=rival.name)
            cells = sitting.measure_rival(rival, lambda words: bar.update(text=words))
            if cells:
                found.append(Found(rival.name, rival.about, cells))
    rule = "the board must hold measurements of the untouched model"
    require(bool(found) and found[0].name == UNTOUCHED, rule, "none", "Run it without --show")
    return BoardResult(opened.name, board, found)


class _Sitting:
    """One model on one board."""

    def __init__(self, opened: Opened, board: RivalBoard, runs: Path, show: bool) -> None:
        self.opened, self.board, self.runs, self.show = opened, board, runs, show
        self.identity = describe(opened.model)
        self.folder = runs / EXPERIMENT / f"{opened.name}-{self.identity['model']}"

    def measure_rival(self, rival: Rival, say: Say) -> dict[BoardCell, list[Record]]:
        """Return the records of every cell that there is."""
        made = rival.make(self.opened, self.board, self.folder, not self.show)
        if made is None:
            return {}
        found = {}
        for cell in [BoardCell("made"), *self.board.cells()]:
            if cell.kind in rival.skips:
                continue
            say(f"{rival.name}: {cell}")
            rows = self._cell(cell, rival, made)
            if rows is not None:
                found[cell] = rows
        return found | ({} if RULER in rival.skips else self._judge(rival, made, say))

    def _cell(self, cell: BoardCell, rival: Rival, made: Made) -> list[Record] | None:
        config = {
            "cell": asdict(cell),
            "rival": rival.name,
            "made": made.digest,
            **self.board.measured(),
            **self.identity,
        }
        run = Run.of(config, EXPERIMENT, self.runs)
        if not run.finished:
            if self.show:
                return None
            with run.claim():
                if not run.finished:
                    run.finish(config, measure_cell(cell, rival, made, self.opened, self.board))
        return run.records()

    def _judge(self, rival: Rival, made: Made, say: Say) -> dict[BoardCell, list[Record]]:
        """RULER, kept where `strop evaluate --suite ruler` keeps it."""
        bench = self.board.bench()
        if bench is None:
            return {}
        marker = Marker(self.opened.model, bench, self.identity, self.runs)
        change = (None if rival.name == UNTOUCHED else made.digest, made.put_on)
        if not self.show:
            from strop.evaluation.judging.verb import measure_cells

            say(f"{rival.name}: RULER")
            measure_cells(marker, self.opened, [change], False)
        missing = {cell for _, cell in marker.missing([change])}
        return {
            BoardCell(cell.task, cell.tokens): marker.run(change[0], cell).records()
            for cell in bench.cells()
            if cell not in missing
        }
