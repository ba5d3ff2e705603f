"""The board of rivals: what else could make a frozen model look things up among more, on the same footing.

    board.py        which cells: look-up by size, controls, prose, cost, RULER
    rival.py        what a rival is, and the list of them
    edges.py        edges of ours, calibrated on the board's data
    adapters.py     PEFT's LoRA and (IA)³, trained on the same data by plain AdamW
    dysco.py        tokens raised step by step, as retrieval heads (retrieval_heads.py) pick them
    made.py         what a rival has become once it has learned
    shots.py        two solved examples before the question
    measurement.py  one cell of one rival, kept
    study.py        `run_board`: measures what is missing
    result.py       records, page; table.py makes the table from records alone

Every cell of every rival is a run of its own, so that a board is built up in several sittings: `strop rivals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.studies.rivals.board import RivalBoard as RivalBoard
    from strop.studies.rivals.result import BoardResult as BoardResult
    from strop.studies.rivals.study import run_board as run_board

_HOMES = {"BoardResult": "result", "RivalBoard": "board", "run_board": "study"}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
