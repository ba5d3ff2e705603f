"""The results of benchmarks/ladder.py: kept by model, corrected within a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ladder_table import Results, print_comparison, print_table


def _cell(right: str, passages: int) -> dict[str, Any]:
    each = len(right) // passages
    return {"exact": right.count("1") / len(right), "right": right, "passages": [i // each for i in range(len(right))]}


def test_a_file_of_one_model_is_read_as_that_models(tmp_path: Path) -> None:
    path = tmp_path / "ladder.json"
    old = {"untouched": {"similar 16": _cell("0101", 2)}}
    path.write_text(json.dumps(old))
    assert Results("smollm2", path).read() == old
    assert Results("gemma3-270m", path).read() == {}
    Results("gemma3-270m", path).update("untouched", "similar 16", _cell("1111", 2))
    assert Results("smollm2", path).read() == old
    assert '"passages": [0,0,1,1]' in path.read_text()


def test_what_was_measured_of_another_edge_is_forgotten(tmp_path: Path) -> None:
    results = Results("smollm2", tmp_path / "ladder.json")
    results.begin("pairs", {"digest": "one"})
    results.update("pairs", "similar 16", _cell("0101", 2))
    results.begin("pairs", {"digest": "one"})
    assert "similar 16" in results.read()["pairs"]
    results.begin("pairs", {"digest": "other"})
    assert results.read()["pairs"] == {"made": {"digest": "other"}}


def test_p_values_are_corrected_within_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    none, all_ = _cell("0" * 8, 8), _cell("1" * 8, 8)  # 8 changes of one sign: p = 2/2⁸ by both tests
    kept: dict[str, Any] = {"untouched": dict.fromkeys("abc", none) | {"d": all_}}
    kept |= {name: dict.fromkeys("abc", all_) | {"d": none} for name in ("pairs", "query")}
    print_table(kept, ["pairs"], [*"abcd"])
    shown = capsys.readouterr().out
    assert "| a | 0.0 (0–32) | **100.0** (68–100) |" in shown
    assert "| d | 100.0 (68–100) | worse: 0.0 (0–32) |" in shown
    print_table(kept | {"more": kept["pairs"]}, [], [*"abcd"])  # twelve cells: p = 24/2⁸
    shown = capsys.readouterr().out
    assert "**" not in shown
    assert "after Holm over 12 cells" in shown
    print_comparison(kept, "query", "untouched", ["a"])
    assert "| 8 | 0 | 8e-03 | query |" in capsys.readouterr().out
