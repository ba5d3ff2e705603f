"""Scores of the same documents, before and after."""

import pytest

from strop.errors import ArgumentError
from strop.evaluation.judging.bench import NEEDLES, RULER
from strop.evaluation.judging.compare import compare_cells, compare_means
from strop.evaluation.paired import flip_p, holm, mcnemar_p


def rows(task: str, scores: list[float], tokens: int | None = 1024) -> list[dict[str, object]]:
    return [{"task": task, "tokens": tokens, "document": str(i), "score": score} for i, score in enumerate(scores)]


def test_for_scores_of_0_and_1_the_test_is_mcnemars():
    before, after = [0, 0, 0, 0, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 1, 1, 1, 0]
    (found,) = compare_cells(rows("a", before), rows("a", after))
    assert found["p"] == pytest.approx(mcnemar_p([bool(s) for s in before], [bool(s) for s in after]))
    assert (found["gains"], found["losses"], found["prompts"]) == (6, 1, 9)


def test_shares_are_flipped_as_they_are():
    assert flip_p([0.2, 0.4]) == 0.5  # of four assignments of signs, two are as far from 0
    assert flip_p([0.3, -0.1, 0.0]) == 1.0
    tenths = [-2, -2, 1, 7, 6, -3, -2, 7]  # as tenths, some sums that are the same differ in their last digit
    assert flip_p([change / 10 for change in tenths]) == flip_p(tenths) == 100 / 256


def test_p_values_are_corrected_within_the_table():
    up, down = [0.0] * 10, [1.0] * 10
    found = compare_cells(rows("a", up) + rows("b", up), rows("a", down) + rows("b", [1.0] * 5 + up[5:]))
    assert [row["p_holm"] for row in found] == holm([row["p"] for row in found])
    assert found[0]["p_holm"] == 2 * found[0]["p"]


def test_a_mean_is_over_tasks_and_its_interval_over_documents():
    before = [row for task in RULER for row in rows(task, [0.0] * 4)]
    after = [row for task in RULER for row in rows(task, [1.0, 0.0] * 2 if task in NEEDLES else [0.0] * 4)]
    six, needles = compare_means(before, after)
    assert (six["before"], six["after"], six["change"]) == (0.0, 0.25, 0.25)
    assert needles["after"] == 0.5
    spread = (3 * (1 / 3) / 4) ** 0.5 / 3
    assert needles["change_high"] == pytest.approx(0.5 + 1.959964 * spread)


def test_means_are_of_whole_sets_of_tasks_and_of_all_lengths_if_there_are_several():
    both = [row for n in (1024, 2048) for task in NEEDLES for row in rows(task, [0.0], n)]
    assert [(row["task"], row["size"]) for row in compare_means(both, both)] == [
        ("mean of the three needle tasks", 1024),
        ("mean of the three needle tasks", 2048),
        ("mean of the three needle tasks", None),
    ]


def test_other_documents_are_refused():
    other = [{**row, "document": "x"} for row in rows("a", [0.0])]
    with pytest.raises(ArgumentError, match="before and after must be of the same documents"):
        compare_cells(rows("a", [0.0]), other)


def test_scores_beyond_1_have_intervals_of_their_own():
    (found,) = compare_cells(rows("a", [1.0, 3.0]), rows("a", [2.0, 2.0]))
    assert (found["before_low"], found["after_low"]) == (pytest.approx(2 - 1.959964), 2.0)
