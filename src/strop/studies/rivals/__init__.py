"""The board of rivals: what else could make a frozen model look things up among more, on the same footing.

    board.py        which cells: look-up by size, controls, prose, cost, RULER
    rival.py        what a rival is, and the list of them
    edges.py        edges of ours, calibrated on the board's data
    adapters.py     PEFT's LoRA and (IA)³, trained on the same data by plain AdamW
    shots.py        two solved examples before the question
    measurement.py  one cell of one rival, kept
    study.py        `run_board`: measures what is missing
    result.py       records, tables, page

Every cell of every rival is a run of its own, so that a board is built up in several sittings: `strop rivals`.
"""

from __future__ import annotations

from strop.studies.rivals.board import Board
from strop.studies.rivals.result import BoardResult
from strop.studies.rivals.study import run_board

__all__ = ["Board", "BoardResult", "run_board"]
