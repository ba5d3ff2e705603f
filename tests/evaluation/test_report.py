"""The report of an edge: harm first, intervals, and nothing unescaped."""

from strop.evaluation.report import make_comparison_page, tabulate_answers, tabulate_prose, write_verdict


def row(size, before, after, p, phrasing="room", passages=6):
    sides = {"before": before, "before_low": before - 0.05, "before_high": before + 0.05, "after": after}
    more = {"after_low": after - 0.05, "after_high": after + 0.05, "nats_before": 1.0, "nats_after": 0.5}
    tests = {"gains": 10, "losses": 2, "p_mcnemar": p, "p_passages": 2 * p}
    return {
        "task": "recall",
        "phrasing": phrasing,
        "size": size,
        "prompts": 20,
        "passages": passages,
        **sides,
        **more,
        **tests,
    }


ANSWERS = [row(16, 0.5, 0.9, 1e-4), row(64, 0.1, 0.2, 0.04), row(16, 0.8, 0.4, 1e-3, "<b>price</b>")]
PROSE = [
    {"tokens": 256, "windows": 4, "before": 2.9, "after": 2.904, "change": 0.004, "standard_error": 0.001},
    {"tokens": 1024, "windows": 1, "before": 2.5, "after": 2.49, "change": -0.01, "standard_error": None},
]
HEADS = [
    {"layer": 0, "head": 0, "name": "a", "beta": 2.0, "output": 1.0, "done": "sharpened"},
    {"layer": 0, "head": 1, "name": "a", "beta": 1.0, "output": 1.0, "done": "left alone"},
]


def test_harm_is_said_first_and_both_tests_must_agree():
    said = write_verdict(ANSWERS, PROSE)
    assert said.startswith("Significantly better on 1 of 3 groups of prompts. WORSE on recall “<b>price</b>” at 16.")
    assert said.endswith("Prose: +0.0040 nats a token at worst.")
    assert "Significantly worse on none." in write_verdict(ANSWERS[:2], PROSE)


def test_too_few_passages_to_tell_are_said():
    assert write_verdict([row(16, 0.5, 0.9, 0.03, passages=5)], PROSE).endswith("ask for more prompts.")


def test_tables_hold_intervals_and_changes():
    cells = tabulate_answers(ANSWERS).cells()[0]
    assert "90.0 (85.0–95.0)" in cells
    assert "+10 −2" in cells
    assert tabulate_prose(PROSE).cells()[1][-2:] == ["−0.0100", "–"]


def test_the_page_escapes_what_it_shows():
    made = make_comparison_page(
        ANSWERS, PROSE, HEADS, {"before": 10.0, "after": 9.5}, {"model": "<i>tiny</i>", "edge": "constant"}
    )
    text = made.render()
    assert "<i>tiny" not in text
    assert "<b>price" not in text
    assert "of 2 heads were changed" in text
    assert text.count("<svg") >= 2
