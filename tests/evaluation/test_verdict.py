"""A comparison in words: the result first, then harm; both tests must agree."""

from evaluation.test_report import ANSWERS, OVERALL, OWN, PROSE, row
from strop.evaluation.verdict import judge, write_verdict


def test_the_result_is_said_first_then_harm():
    said = write_verdict(OVERALL, ANSWERS, PROSE)
    assert said.startswith("Exact answers of 1,060 prompts: 46.7 % (41.7–51.7) → 50.0 % (45.0–55.0), ")
    assert "significantly better (p 0.01 over prompts, 0.02 over passages). Significantly" in said
    assert "Significantly better on 1 of 3 groups of prompts; WORSE on recall: <b>price</b> at 16." in said
    assert said.endswith("Prose: +0.0040 nats a token at worst.")
    assert "groups of prompts, worse on none." in write_verdict(OVERALL, ANSWERS[:2], PROSE)


def test_both_tests_must_agree():
    assert [judge(row(16, 0.4, after, p)) for after, p in ((0.9, 0.02), (0.9, 0.03), (0.1, 0.02))] == [
        "better", "not told apart", "worse",
    ]  # fmt: skip
    assert ", not told apart (p 0.03 over prompts, 0.06 over passages)." in write_verdict(
        row(1, 0.4, 0.9, 0.03), [], []
    )


def test_of_a_single_group_all_is_said_once():
    assert "group" not in write_verdict(OWN, [OWN], PROSE)


def test_too_few_passages_to_tell_are_said():
    assert write_verdict(OVERALL, [{**ANSWERS[0], "passages": 5}], PROSE).endswith("ask for more prompts.")
    assert write_verdict(OVERALL, ANSWERS, PROSE).endswith("at worst.")
