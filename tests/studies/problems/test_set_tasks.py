from collections import Counter
from itertools import product

import pytest
import torch
from torch import Generator

from strop.studies.problems import find_problem
from strop.studies.problems.count import count_planted
from strop.studies.problems.needle import _masks
from strop.studies.problems.top_k import TopKClass, _three_largest, _vote


def drawn(name, count, size, seed=0):
    return find_problem(name).sample(count, size, Generator().manual_seed(seed))


def votes(inputs):
    """Winners by the words of the docstring, one set at a time."""
    for items in inputs.tolist():
        ranked = sorted(items, key=lambda item: -item[0])[:3]
        classes = [item.index(1.0, 1) - 1 for item in ranked]
        most = max(Counter(classes).values())
        yield next(c for c in classes if Counter(classes)[c] == most), classes[0]


@pytest.mark.parametrize("size", [3, 4, 16, 300])
def test_the_three_largest_vote(size):
    problems = drawn("top_k_class", 200, size)
    assert [winner for winner, _ in votes(problems.inputs)] == problems.target.tolist()


def test_the_largest_alone_is_not_enough():
    problems = drawn("top_k_class", 2000, 16)
    right = sum(winner == first for winner, first in votes(problems.inputs)) / 2000
    assert 0.40 < right < 0.50


def test_weights_that_fall_with_rank_decide_every_vote():
    falling = torch.tensor([0.4, 0.32, 0.28])
    for classes in product(range(3), repeat=3):
        mixed = torch.zeros(3).index_add(0, torch.tensor(classes), falling)
        assert mixed.argmax() == _vote(*torch.tensor(classes))


def test_the_first_of_equal_values_comes_first():
    places = _three_largest(torch.tensor([[0.5, 0.9, 0.5, 0.9, 0.5]]))
    assert [int(place) for place in places] == [1, 3, 0]


@pytest.mark.parametrize("size", [5, 16, 1000])
def test_other_keys_differ_from_the_needle_in_three_signs_or_more(size):
    problems = drawn("needle", 50, size)
    keys, query = problems.inputs[..., :16], problems.query
    assert keys.abs().unique().tolist() == [0.25]
    needle = query.sign() * 0.25
    assert (query - needle).abs().max() <= 0.1
    differing = (keys != needle[:, None]).sum(-1)
    assert (differing.sort(-1).values[:, 0] == 0).all()
    assert (differing.sort(-1).values[:, 1] >= 3).all()
    found = problems.inputs[torch.arange(50), differing.argmin(-1), 16:].argmax(-1)
    assert torch.equal(found, problems.target)


def test_other_keys_are_uniform_over_all_that_are_allowed():
    assert len(_masks()) == len(_masks().unique(dim=0)) == 2**16 - 1 - 16 - 120
    differing = (
        drawn("needle", 20, 1000).inputs[..., :16] != drawn("needle", 20, 1000).query[:, None].sign() * 0.25
    ).sum(-1)
    assert 7.9 < differing[differing > 0].float().mean() < 8.1


def test_needles_lie_anywhere():
    problems = drawn("needle", 400, 4)
    place = (problems.inputs[..., :16] @ problems.query[..., None])[..., 0].argmax(1)
    assert (place.bincount(minlength=4) > 60).all()


@pytest.mark.parametrize("size", [1, 5, 16, 4096])
def test_averages_keep_away_from_the_edges_of_their_bins(size):
    problems = drawn("average", 300, size)
    place = problems.inputs[..., 0].double().mean(1) * 10 - problems.target
    assert 0.2 - 1e-4 < place.min() < 0.3
    assert 0.7 < place.max() < 0.8 + 1e-4
    assert (problems.target.bincount(minlength=10) > 10).all()


@pytest.mark.parametrize("size", [5, 16, 4096])
def test_few_values_do_not_tell_the_average(size):
    problems = drawn("average", 500, size)
    values = problems.inputs[..., 0]
    for guess in (values[:, 0], values[:, :3].mean(1), values.amax(1), values.amin(1)):
        assert ((guess * 10).floor().clamp(0, 9) == problems.target).float().mean() < 0.4


def test_the_largest_value_says_nothing_of_the_average_of_many():
    values = drawn("average", 500, 4096).inputs[..., 0]
    both = torch.stack([values.amax(1), values.mean(1)])
    assert both.corrcoef()[0, 1].abs() < 0.3


@pytest.mark.parametrize("size", [*range(2, 40), 64, 255, 1024])
def test_counts_are_never_tied_and_the_margin_grows(size):
    counts = drawn("count", 20, size).inputs[..., 1:].sum(1).sort(-1, descending=True).values
    assert (counts.sum(-1) == size).all()
    assert (counts[:, 0] == count_planted(size)).all()
    assert (counts[:, 0] - counts[:, 1] >= max(1, (size - 9) // 9)).all()


def test_items_are_in_no_order():
    classes = drawn("count", 400, 16).inputs[..., 1:].argmax(-1)
    planted = classes == drawn("count", 400, 16).target[:, None]
    share = planted.float().mean(0)
    assert (share > 0.15).all()
    assert (share < 0.35).all()


@pytest.mark.parametrize("name", ["max_retrieval", "top_k_class", "needle", "count"])
def test_answers_are_as_likely(name):
    counts = drawn(name, 2000, 12).target.bincount(minlength=10)
    assert (counts > 140).all()
    assert (counts < 260).all()


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="classes must be at least 2, got 1"):
        TopKClass(classes=1)
    with pytest.raises(ValueError, match=r"classes must be at least 10, got 4\. With fewer there may be ties"):
        find_problem("count", classes=4)
    with pytest.raises(ValueError, match="classes must be at least 1, got 0"):
        find_problem("needle", classes=0)
    with pytest.raises(ValueError, match="size of top_k_class must be at least 3, got 2"):
        drawn("top_k_class", 1, 2)
