"""Intervals and paired tests, beside scipy's."""

import math

import pytest
import torch
from scipy.stats import binomtest

from strop.evaluation.paired import mcnemar_p, sign_flip_p, wilson_interval


@pytest.mark.parametrize(("successes", "total"), [(0, 10), (3, 10), (10, 10), (120, 200)])
def test_wilson_is_scipys(successes, total):
    wanted = binomtest(successes, total).proportion_ci(0.95, "wilson")
    assert wilson_interval(successes, total) == pytest.approx((wanted.low, wanted.high), abs=1e-6)
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("gains", "losses"), [(0, 0), (5, 0), (7, 2), (3, 3), (60, 40)])
def test_mcnemar_is_a_binomial_test_on_what_changed(gains, losses):
    before = [True] * 4 + [False] * 6 + [False] * gains + [True] * losses
    after = [True] * 4 + [False] * 6 + [True] * gains + [False] * losses
    wanted = binomtest(gains, gains + losses).pvalue if gains + losses else 1.0
    assert mcnemar_p(before, after) == pytest.approx(wanted)


def test_one_question_a_passage_makes_both_tests_one():
    before, after = [False] * 12, [True] * 10 + [False] * 2
    assert sign_flip_p(before, after, list(range(12))) == pytest.approx(mcnemar_p(before, after))


def test_questions_of_one_passage_are_one_change():
    before, after = [False] * 40, [True] * 40
    assert mcnemar_p(before, after) < 1e-10
    assert sign_flip_p(before, after, [i // 20 for i in range(40)]) == 0.5  # two passages: four signs
    assert sign_flip_p(before, before, [0] * 40) == 1.0
    assert (
        sign_flip_p([True, False] * 9, [False, True] * 9, [i // 2 for i in range(18)]) == 1.0
    )  # a gain and a loss each


def test_many_passages_are_drawn_and_agree_with_the_normal_distribution():
    draw = torch.Generator().manual_seed(0)
    before = torch.rand(400, generator=draw) < 0.5
    after = torch.where(torch.rand(400, generator=draw) < 0.12, True, before)
    p = sign_flip_p(before.tolist(), after.tolist(), [i // 4 for i in range(400)])
    change = (after.int() - before.int()).view(100, 4).sum(1).double()
    z = float(change.sum() / change.square().sum().sqrt())
    assert p == pytest.approx(math.erfc(z / math.sqrt(2)), abs=3e-3)
    assert 0 < p < 0.01


def test_thousands_of_changes_are_counted():
    assert mcnemar_p([False] * 1100, [True] * 1100) < 1e-300
    assert mcnemar_p([False, True] * 1100, [True, False] * 1100) == 1.0
