"""Edges of ours: calibrated on the board's data with budget, guard and validation, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop.edges.edge import Edge
from strop.studies.rivals.board import RivalBoard
from strop.studies.rivals.made import Made

if TYPE_CHECKING:
    from strop.pretrained.load import Opened


def make_edge(
    name: str, settings: Mapping[str, Any], opened: Opened, board: RivalBoard, folder: Path, learn: bool
) -> Made | None:
    """Calibrate an edge on look-up, or read the one that was; an interrupted calibration goes on."""
    from strop.calibration.settings import Settings
    from strop.calibration.verb import calibrate
    from strop.records.addresses import short_id

    given: dict[str, Any] = {"sizes": board.pairs, "judged": board.judged, "steps": board.steps, "seed": board.seed}
    path = folder / f"{name}-{short_id({**asdict(Settings()), **board.learned(), **settings})}.safetensors"
    if not path.exists():
        if not learn:
            return None
        edge = calibrate(
            opened.model, opened.tokenizer, "lookup", **given, **settings, guard_leads=True, runs=folder,
            name=opened.name, progress=False,
        )  # fmt: skip
        edge.save(path)
    return open_edge(str(path), opened, board, folder, learn)


def open_edge(path: str, opened: Opened, board: RivalBoard, folder: Path, learn: bool) -> Made:
    """Return the edge of a file as a rival."""
    edge = Edge.load(path)
    progress: Mapping[str, Any] = edge.made.get("progress") or {}
    loss = progress.get("best_task")
    note = "" if loss is None else f"validated {loss:.3f} nats"
    seconds = float(progress.get("seconds", 0.0))
    return Made(edge.digest, lambda: edge.put_on(opened.model), edge.size, seconds, note, edge.bakeable)
