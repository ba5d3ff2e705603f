"""Is bluntness a problem, and what to do next: true for sharp models too, with figures that a command printed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import families
import pytest

from strop.probing.verdict import ON_SMOLLM2, advise, judge_bluntness, writes_answers
from strop.records import Record

ROOT = Path(__file__).parents[2]


def heads(**classes: int) -> list[Record]:
    return [{"class": kind, "n": 1024, "slope": -0.1} for kind, count in classes.items() for _ in range(count)]


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ({"sharp": 8, "sink": 4}, "is no problem for tiny up to 1,024 tokens: none of the 8 heads that look far"),
        ({"local": 3, "sink": 4}, "is no problem for tiny up to 1,024 tokens: no head looks far"),
        ({"sharp": 7, "dispersing": 2}, "is hardly a problem for tiny up to 1,024 tokens: 2 of the 9 heads"),
        ({"sharp": 6, "dispersing": 2, "local": 9}, "is a problem for tiny by 1,024 tokens: 2 of the 8 heads"),
    ],
)  # fmt: skip
def test_the_verdict_follows_the_heads_that_look_far(classes: dict[str, int], said: str) -> None:
    assert said in judge_bluntness("tiny", heads(**classes))


def test_one_length_gives_no_verdict() -> None:
    assert "cannot be told" in judge_bluntness("tiny", [{**head, "slope": math.nan} for head in heads(sharp=2)])


def test_the_next_command_is_one_that_works() -> None:
    assert advise("my models/a", True)[1] == "strop calibrate 'my models/a'"
    assert advise(None, True)[1] == "strop.calibrate(model, tokenizer)"
    assert advise("minilm", False)[1] == "strop probe minilm --text FILE"
    assert writes_answers(families.model("llama"))
    assert not writes_answers(families.model("bert"))


def test_what_is_said_of_smollm2_was_measured() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "bluntness.json").read_text())
    rho = f"{found['spearman']:.3f}".replace("-", "−")
    for text in (ON_SMOLLM2, " ".join((ROOT / "docs" / "probe.md").read_text().split())):
        assert f"is {rho} over {found['heads']} heads" in text
        assert f"{found['blunt_among_most_changed']} of the {found['blunt']} blunt heads" in text
        assert f"chance gives {found['by_chance']}" in text
