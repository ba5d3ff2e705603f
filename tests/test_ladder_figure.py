"""The picture of benchmarks/ladder.py: a line a rung, a row of panels a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ladder_figure import draw_ladder

from strop.report import figures


def test_every_measured_size_of_every_rung_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "png", lambda figure, path: drawn.append(figure))
    rungs = {
        "untouched": {"prose": {}, "similar 16": {"right": "0001"}, "nouns 64": {"right": "0011"}},
        "query-8": {"made": {}, "similar 96": {"right": "0111"}, "similar 16": {"right": "1111"}},
        "pairs": {"similar 16": {"right": "0000"}},
    }
    draw_ladder({"one": rungs, "two": rungs}, ["query-8"], (8, 24), tmp_path / "ladder.png")
    panels = drawn[0].axes
    assert [panel.get_title(loc="left") for panel in panels] == [
        f"{model}, {kind}" for model in ("one", "two") for kind in ("similar keys", "common nouns")
    ]
    lines = {box.get_label(): box.lines[0].get_xydata().tolist() for box in panels[0].containers}
    assert lines == {"untouched": [[16.0, 25.0]], "query-8": [[16.0, 100.0], [96.0, 75.0]]}
