"""One cell of one rival."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from strop.evaluation.answers import answer_passages, score_prose
from strop.evaluation.suite import Suite
from strop.studies.rivals.board import WORDINGS, BoardCell, RivalBoard
from strop.tasks.answers import Reader
from strop.tasks.prose import cut_windows, read_prose

if TYPE_CHECKING:
    from strop.pretrained.load import Opened
    from strop.records import Record
    from strop.studies.rivals.made import Made
    from strop.studies.rivals.rival import Rival
    from strop.tasks.passages import Passage

TIMED, PASSES = 512, 3
"""Tokens of the passes that are timed, and how many; one more comes before."""


def measure_cell(cell: BoardCell, rival: Rival, made: Made, opened: Opened, board: RivalBoard) -> list[Record]:
    """Return a record for every question, window or pass; of what was learned, one."""
    reader = Reader(opened.tokenizer)
    if cell.kind == "made":
        return [{"numbers": made.numbers, "seconds": made.seconds, "note": made.note, "bakes": made.bakes}]
    if cell.kind == "cost":
        return _compare_tokens(rival, reader, board) if rival.prompts_only else _time(made, opened, reader)
    with made.put_on():
        if cell.kind == "prose":
            assert cell.size is not None
            text = cut_windows(reader, read_prose("test"), cell.size, board.windows, apart=True)
            return [{"loss": loss} for loss in score_prose(opened.model, text)]
        return answer_passages(opened.model, reader, _draw(cell, rival, board), str(cell))


def _draw(cell: BoardCell, rival: Rival, board: RivalBoard) -> list[Passage]:
    assert cell.size is not None
    task, wordings = ("lookup-similar", WORDINGS) if cell.kind == "look-up" else (cell.kind, ())
    suite = Suite(task, (cell.size,), wordings, board.prompts, board.questions, seed=board.seed)
    return rival.passages(task, suite.passages())


def _compare_tokens(rival: Rival, reader: Reader, board: RivalBoard) -> list[Record]:
    """Tokens of the prompts at the middle size: where only prompts change, they are the cost."""
    from strop.studies.rivals.rival import RIVALS, UNTOUCHED

    cell = BoardCell("look-up", board.sizes[len(board.sizes) // 2])
    before, after = (
        sum(reader.encode(passage).context.shape[1] for passage in _draw(cell, one, board))
        for one in (RIVALS[UNTOUCHED], rival)
    )
    return [{"before": float(before), "after": float(after)}]


@torch.no_grad()
def _time(made: Made, opened: Opened, reader: Reader) -> list[Record]:
    """Passes in turn, without and with it."""
    ids = cut_windows(reader, read_prose("test"), min(TIMED, len(reader.tokens(read_prose("test")))), 1)
    rows: list[Record] = []
    for _ in range(1 + PASSES):
        before = _pass(opened, ids)
        with made.put_on():
            rows.append({"before": before, "after": _pass(opened, ids)})
    return rows[1:]


def _pass(opened: Opened, ids: torch.Tensor) -> float:
    start = time.perf_counter()
    opened.model(input_ids=ids, use_cache=False, logits_to_keep=1)
    return time.perf_counter() - start
