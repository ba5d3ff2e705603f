"""An arm against softmax: the numbers by hand, and scipy's tests where it has them."""

import pytest
from scipy import stats

from strop.studies.clrs.comparison import ALL, compare_arm, seed_interval


def rows(arm, algorithm, marks, region="beyond", n=20):
    """A row for each seed; marks as in "r0110"."""
    return [
        {"arm": arm, "algorithm": algorithm, "seed": seed, "n": n, "region": region, "place": None,
         "exact": one.count("1") / (len(one) - 1), "tokens": 0.5, "rights": one}
        for seed, one in enumerate(marks)
    ]  # fmt: skip


RECORDS = [
    *rows("softmax", "minimum", ["r0000", "r0001", "r1100"]),
    *rows("adaptive", "minimum", ["r1110", "r1111", "r1101"]),
    *rows("softmax", "heapsort", ["r0011", "r0011", "r0011"]),
    *rows("adaptive", "heapsort", ["r0011", "r0011", "r0011"]),
    *rows("adaptive", "minimum", ["r0000", "r0000", "r0000"], region="seen", n=4),
]


def test_differences_intervals_and_changes():
    minimum, heapsort, mean = compare_arm(RECORDS, ("minimum", "heapsort", "bfs"), "adaptive", "beyond", "exact")
    gaps = [0.75, 0.75, 0.25]
    expected = stats.t.interval(0.95, 2, loc=sum(gaps) / 3, scale=stats.sem(gaps))
    assert (minimum.low, minimum.high) == pytest.approx(expected)
    assert minimum.difference == pytest.approx(sum(gaps) / 3)
    assert (minimum.gained, minimum.lost) == (7, 0)
    assert minimum.p == pytest.approx(2 * stats.ttest_1samp(gaps, 0).pvalue)  # Holm over two algorithms
    assert minimum.p_questions == pytest.approx(2 * stats.binomtest(0, 7).pvalue)
    assert (heapsort.difference, heapsort.p, heapsort.verdict) == (0, 1, "–")
    assert mean.algorithm == ALL
    assert mean.difference == pytest.approx(minimum.difference / 2)


def test_a_verdict_is_by_the_corrected_p_over_seeds_and_another_by_that_over_questions():
    records = [*rows("softmax", "bfs", ["r1111"] * 3), *rows("adaptive", "bfs", ["r0001", "r0000", "r0001"])]
    (found,) = compare_arm(records, ("bfs",), "adaptive", "beyond", "exact")
    assert (found.verdict, found.verdict_on_questions) == ("worse", "worse")
    minimum, *_ = compare_arm(RECORDS, ("minimum", "heapsort"), "adaptive", "beyond", "exact")
    assert (minimum.verdict, minimum.verdict_on_questions) == ("–", "better")
    assert seed_interval([0.5]) == (None, None)


def test_nothing_is_compared_with_a_softmax_that_was_not_tested():
    alone = rows("adaptive", "bfs", ["r0001", "r0000"])
    assert compare_arm(alone, ("bfs",), "adaptive", "beyond", "exact") == []
    other_seed = [row | {"seed": 2} for row in rows("softmax", "bfs", ["r1111"])]
    assert compare_arm(alone + other_seed, ("bfs",), "adaptive", "beyond", "exact") == []
