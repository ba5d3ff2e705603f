"""The report of an edge: the result first, intervals, every size drawn as measured, and nothing unescaped."""

import re

import pytest

from strop.evaluation.drawings import draw_answers
from strop.evaluation.report import make_comparison_page, tabulate_answers, tabulate_prose


def row(size, before, after, p, phrasing="room", task="recall"):
    return {
        "task": task, "phrasing": phrasing, "size": size, "prompts": 20, "passages": 6,
        "before": before, "before_low": before - 0.05, "before_high": before + 0.05,
        "after": after, "after_low": after - 0.05, "after_high": after + 0.05, "nats_before": 1.0, "nats_after": 0.5,
        "gains": 10, "losses": 2, "p_mcnemar": p, "p_passages": 2 * p,
    }  # fmt: skip


ANSWERS = [row(16, 0.5, 0.9, 1e-4), row(64, 0.1, 0.2, 0.04), row(16, 0.8, 0.4, 1e-3, "<b>price</b>")]
OWN = row(0, 0.1, 0.7, 1e-4, "jsonl", "prompts.jsonl")
OVERALL = {**row(None, 0.467, 0.5, 0.01), "prompts": 1060}
PROSE = [
    {"tokens": 256, "windows": 4, "before": 2.9, "after": 2.904, "change": 0.004, "standard_error": 0.001},
    {"tokens": 1024, "windows": 1, "before": 2.5, "after": 2.49, "change": -0.01, "standard_error": None},
]
HEADS = [
    {"layer": 0, "head": 0, "name": "a", "beta": 2.0, "output": 1.0, "done": "sharpened"},
    {"layer": 0, "head": 1, "name": "a", "beta": 1.0, "output": 1.0, "done": "left alone"},
]


def page(answers=ANSWERS, heads=HEADS):
    return make_comparison_page(OVERALL, answers, PROSE, heads, {"model": "<i>tiny</i>", "edge": "constant"})


@pytest.mark.parametrize(
    ("beta", "output", "map_of"),
    [(2.0, 1.0, "Inverse temperature"), (1.0, 0.9, "Output scale"), (1.0, 1.0, None)],
)
def test_the_map_of_heads_shows_what_the_edge_changes(beta, output, map_of):
    done = {"done": "turned and scaled", "beta": beta, "output": output}
    text = page(heads=[{**HEADS[0], **done}, HEADS[1]]).render()
    maps = re.findall(r"(Inverse temperature|Output scale) by layer and head", text)
    assert set(maps) == ({map_of} if map_of else set())
    assert "It edits the query of 1: there the order of the keys may change." in text


def ticks(svg):
    """The words under the panels, left to right."""
    return re.findall(r"<text[^>]*text-anchor: middle[^>]*>([^<]*)</text>", svg)


def test_tables_hold_intervals_and_changes():
    cells = tabulate_answers(ANSWERS).cells()[0]
    assert cells[:2] == ["recall: room", "16"]
    assert "90.0 (85.0–95.0)" in cells
    assert "+10 −2" in cells
    assert tabulate_answers([OWN]).cells()[0][:2] == ["prompts.jsonl", "–"]
    assert tabulate_prose(PROSE).cells()[1][-2:] == ["−0.0100", "–"]


def test_a_narrow_screen_shows_before_and_after():
    dropped = tabulate_answers([row(16, 0.5, 0.9, 1e-4), row(64, 0.1, 0.2, 0.04)]).dropped(60)
    assert "asked" in dropped
    assert not {"prompts", "size", "before, %", "after, %"} & set(dropped)


def test_the_page_leads_with_the_result():
    made = page()
    assert made.lead.startswith(
        "Exact answers of 1,060 prompts: 46.7 % (41.7–51.7) → 50.0 % (45.0–55.0), significantly"
    )
    assert made.facts[0] == ("46.7 → 50.0 %", "exact answers of 1,060 prompts, better")
    assert not any("heads" in meaning for _, meaning in made.facts)


def test_the_page_escapes_what_it_shows_and_says_no_speed():
    text = page().render()
    assert "<i>tiny" not in text
    assert "<b>price" not in text
    assert "The edge changes 1 of 2 heads." in text
    assert text.count("<svg") >= 2
    assert "tokens a second" not in text


def test_ticks_are_the_sizes_that_were_measured():
    shown = ticks(draw_answers([row(size, 0.5, 0.9, 0.1) for size in (64, 4, 1024)]))
    assert shown[:3] == ["4", "64", "1,024"]
    assert "size" in shown


@pytest.mark.parametrize(
    ("answers", "wanted"), [([OWN], ["all prompts"]), ([OWN, {**OWN, "size": 8}], ["8", "no size"])]
)
def test_prompts_without_a_size_are_a_place_of_their_own(answers, wanted):
    shown = ticks(draw_answers(answers))
    assert shown[: len(wanted)] == wanted
    assert "0" not in shown[: len(wanted)]
    assert ("size" in shown) == (len(answers) > 1)
