"""Slopes, horizons, classes and the sentence, on curves made by hand."""

from __future__ import annotations

import math

import pytest

from strop.probing.summary import classify, summarise, write_sentence
from strop.records import Record


def curve(power: float, head: int = 0, **changes: float | None) -> list[Record]:
    """A head whose top weight falls as n^power."""
    base = {"layer": 0, "name": "a", "head": head, "entropy": 1.0, "effective_keys": 3.0, "spread": math.log(300.5),
            "spread_max": 9.0, "first_weight": 0.1, "recent_weight": 0.1, "null_weight": 0.0, "best_weight": 0.9,
            "position": 0.5, "spread_bound": 800.0}  # fmt: skip
    return [
        {**base, "n": n, "n_keys": 0.94 * n, "top_weight": 0.9 * (n / 64) ** power,
         "log_top_weight": math.log(0.9 * (n / 64) ** power)} | changes
        for n in (64, 128, 256, 512)
    ]  # fmt: skip


def test_slope_horizon_and_where_it_goes_blunt() -> None:
    head = summarise(reversed(curve(-0.5)))[0]
    assert head["slope"] == pytest.approx(-0.5)
    assert head["horizon"] == 301
    assert head["horizon_bound"] == math.inf
    assert head["blunt_from"] == 256
    assert head["n"] == 512
    assert summarise(curve(0.0))[0]["blunt_from"] is None
    assert math.isnan(summarise(curve(-0.5)[:1])[0]["slope"])


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"first_weight": 0.5, "recent_weight": 0.9}, "sink"),
        ({"first_weight": 0.2, "null_weight": 0.3}, "sink"),
        ({"recent_weight": 0.5}, "local"),
        ({"n_keys": 100.0}, "local"),
        ({"recent_weight": math.nan}, "dispersing"),
        ({}, "dispersing"),
    ],
)
def test_classes(changes: dict[str, float], kind: str) -> None:
    assert summarise(curve(-0.5, **changes))[0]["class"] == kind


def test_the_threshold_of_dispersing() -> None:
    assert [summarise(curve(power))[0]["class"] for power in (-0.26, -0.24, 0.0)] == ["dispersing", "sharp", "sharp"]
    assert classify(summarise(curve(-0.3)[:1])[0]) == "sharp"  # one length shows no fall


def test_the_sentence_counts_what_it_says() -> None:
    heads = summarise([*curve(-1.0, 0), *curve(0.0, 1), *curve(0.0, 2, first_weight=0.9), *curve(-1.0, 3, spread=20.0)])
    text = write_sentence("tiny", heads)
    assert "2 of tiny's 4 heads go blunt" in text
    assert "costs them 50 %" in text
    assert "at 512 tokens 2 of them" in text
    assert "and 3 cannot by theory" in text
    assert "1 keep their sharpness, 0 look at their neighbours and 1 rest on the first token." in text
    assert "and by theory all still could;" in write_sentence("tiny", summarise(curve(-1.0, spread=20.0)))
    flat = write_sentence("tiny", summarise(curve(0.0)))
    assert flat.startswith("None of tiny's 1 heads goes blunt up to 512 tokens")
