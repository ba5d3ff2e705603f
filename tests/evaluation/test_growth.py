"""What is asked when nobody names sizes: from the calibrated size to twenty times that, at about the same cost each."""

import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

import strop
from strop.errors import ArgumentError, StropWarning
from strop.evaluation import timing, verb
from strop.evaluation.answers import compare_sizes
from strop.evaluation.growth import GrowingSuite, choose_growth, grow, name_task
from strop.evaluation.paired import sign_flip_p
from strop.evaluation.suite import Suite
from strop.tasks.passages import Passage
from strop.tasks.sizes import FailingSize


def made(task: str = "recall", sizes: tuple[int, int] = (2, 3)) -> strop.Edge:
    return replace(tiny.edge(), made={"recipe": {"task": task, "sizes": sizes, "data": None, "seed": 0}})


def evaluate(edge: strop.Edge, **changes: object) -> strop.evaluation.Comparison:
    small = {"prompts": 4, "questions": 2, "lengths": (24,), "windows": 1, "runs": None, "name": "tiny"} | changes
    return strop.evaluate(tiny.model(max_position_embeddings=4096), tiny.tokeniser(), edge, **small)


def test_every_size_reads_about_as_much_and_no_phrasing_asks_what_another_does():
    suite = GrowingSuite("lookup-similar", sizes=(24, 48, 96, 192, 480))
    passages = suite.passages()
    counts = Counter(passage.size for passage in passages)
    assert counts == {24: 100, 48: 48, 96: 24, 192: 12, 480: 8}  # in four phrasings
    questions = {passage.size: len(passage.questions) for passage in passages}
    assert questions == {24: 8, 48: 17, 96: 24, 192: 24, 480: 24}
    assert len({passage.questions[0][1] for passage in passages if passage.size == 480}) == 8
    one = GrowingSuite("lookup-similar", sizes=(24, 480), phrasings=("box",)).passages()
    assert sum(passage.size == 480 for passage in one) == 6  # fewer could show no difference


def test_a_task_with_one_question_a_passage_has_as_many_prompts_at_its_first_size():
    counts = Counter(passage.size for passage in GrowingSuite("maximum", sizes=(8, 64), prompts=24).passages())
    assert counts == {8: 3 * 24, 64: 3 * 3}


def test_sizes_go_to_twenty_times_within_the_context_and_the_task():
    suite, reader = Suite("lookup-similar"), tiny.reader()
    assert choose_growth(suite, reader, 24, 10**6) == (24, 48, 96, 192, 480)
    assert choose_growth(Suite("maximum"), reader, 60, 10**6) == (60, 120, 240, 480, 720)  # there are 900 numbers
    assert choose_growth(suite, reader, 8, 2000) == (8, 16, 32)  # characters
    assert choose_growth(suite, reader, 500, 100) == (500,)


def test_the_calibrated_size_comes_first_and_else_where_the_model_fails(monkeypatch):
    asked = []

    def fails(model, reader, task, phrasings, split, seed, **_):
        asked.append((task, split))
        return FailingSize(None, {4: 1.0, 8: 1.0})

    monkeypatch.setattr("strop.evaluation.growth.find_failure", fails)
    model, reader = tiny.model(max_position_embeddings=4096), tiny.reader()
    assert grow(Suite("recall"), made(sizes=(2, 3)), model, reader).sizes == (3, 6, 12, 24, 60)
    assert grow(Suite("lookup-similar"), made("lookup", (2, 3)), model, reader).sizes[0] == 3
    assert asked == []
    large = tiny.model(max_position_embeddings=10**6)
    monkeypatch.setattr("strop.calibration.sizes.LONGEST", 10**6)
    grown = grow(Suite("lookup"), made("lookup", (8, 24)), large, reader)  # there are too few nouns to calibrate on
    assert (grown.sizes[-1], grown.phrasings) == (480, ("ticket", "account", "box"))
    assert grow(Suite("lookup-similar"), made("lookup", (8, 24)), large, reader).phrasings == ()
    assert grow(Suite("counting"), made(), model, reader).sizes[0] == 8  # it does not fail: the largest that was tried
    assert grow(Suite("recall"), tiny.edge(), model, reader).sizes[0] == 8
    assert asked == [("counting", "validation"), ("recall", "validation")]  # never the test


def test_the_task_is_that_of_the_edge_unless_it_has_none():
    names = [name_task(one) for one in (made("lookup"), made("text"), made("jsonl"), tiny.edge())]
    assert names == ["lookup", "recall", "recall", "recall"]
    found = evaluate(made("passkey"))
    assert {row["task"] for row in found.answers} == {"passkey"}
    assert {row["task"] for row in evaluate(made("passkey"), task="counting", sizes=(2,)).answers} == {"counting"}


def test_a_curve_over_sizes_is_on_the_page_and_in_a_table(tmp_path: Path):
    found = evaluate(made())
    sizes = [row["size"] for row in found.by_size]
    assert sizes == [3, 6, 12, 24, 60] == list(found.suite.sizes)
    assert [row[1] for row in found.size_table().rows] == ["1 ×", "2 ×", "4 ×", "8 ×", "20 ×"]
    for row in found.by_size:
        groups = [one for one in found.answers if one["size"] == row["size"]]
        assert row["prompts"] == sum(one["prompts"] for one in groups)
        assert row["passages"] == sum(one["passages"] for one in groups) >= 6
    page = found.report(tmp_path / "page.html").read_text()
    assert "As inputs grow" in page
    assert page.count("Accuracy before and after as inputs grow") >= 1
    named = evaluate(made(), sizes=(2,))
    assert named.by_size == []
    assert "As inputs grow" not in named.page().render()
    with pytest.raises(ArgumentError, match="sizes must be left to evaluate"):
        named.size_table()


def rows(right: str) -> list[dict]:
    """Answers of two phrasings at sizes 4 and 8, six passages of one question each."""
    places = [(phrasing, size) for size in (4, 8) for phrasing in "ab" for _ in range(3)]
    return [
        {"task": "t", "phrasing": p, "size": n, "passage": i, "question": 0, "exact": one == "1", "nats": 1.0}
        for i, ((p, n), one) in enumerate(zip(places, right, strict=True))
    ]


def test_sizes_are_compared_over_all_phrasings_and_corrected():
    small, large = compare_sizes(rows("0" * 12), rows("1" * 6 + "1" * 3 + "0" * 3))
    assert (small["size"], small["prompts"], small["passages"], small["after"]) == (4, 6, 6, 1.0)
    assert small["p_passages"] == sign_flip_p([False] * 6, [True] * 6, range(6)) == 2 / 64
    assert small["p_holm"] == 2 * 2 / 64
    assert large["p_holm"] == large["p_passages"] == 0.25


def test_how_long_it_takes_is_told_before_it_begins(monkeypatch):
    model, reader = tiny.model(), tiny.reader()
    monkeypatch.setattr(timing, "time_tokens", lambda model, rows, n: 1e-3 * n + 1e-6 * n * n)
    passage = Passage("x" * 1001, (("ab", "cd"),) * 2, 7)  # 1,000 or 1,001 tokens, then 2 · 5
    encoded = reader.encode(passage)
    context = encoded.context.shape[1]
    answered = 1e-3 * context + 1e-6 * context**2 + encoded.ids.numel() * (1e-3 + 2e-6 * context)
    assert timing.time_reading(model).answer(encoded) == pytest.approx(answered)
    words = "120 prompts in 60 passages of sizes 7 are to be answered twice: about 4 min"
    with pytest.warns(StropWarning, match=words):
        verb._announce(model, reader, [passage] * 60, 2)
    with warnings.catch_warnings(action="error"):
        verb._announce(model, reader, [passage] * 60, 0)  # all is there already
        verb._announce(model, reader, [passage] * 20, 2)  # soon done: no trial
