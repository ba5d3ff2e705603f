"""Look-up: keys that share halves, other nouns to descend on, to stop by and to test on."""

from itertools import combinations

import pytest
import torch

from strop.tasks.builtin.lookup import PHRASINGS
from strop.tasks.catalogue import find_task
from strop.tasks.nouns import NOUNS, plain, similar
from strop.tasks.passages import Draw, sample


def draw(seed=0):
    return Draw(torch.Generator().manual_seed(seed))


def test_no_noun_is_in_two_parts():
    for words in NOUNS.values():
        assert len(set(words)) == len(words)
    for one, other in combinations(NOUNS.values(), 2):
        assert not set(one) & set(other)


@pytest.mark.parametrize("count", [1, 2, 16, 96, 512])
def test_similar_keys_share_halves(count):
    keys = similar(count, "test", draw())
    assert len(set(keys)) == count
    first, second = ({key.split("-")[i] for key in keys} for i in (0, 1))
    assert not first & second
    assert max(len(first), len(second)) <= (2 * count) ** 0.5 + 1


def test_there_are_keys_for_512_pairs_of_the_test():
    for name in ("lookup", "lookup-similar", "lookup-nouns"):
        for phrasing in find_task(name).held_out:
            (passage,) = sample(find_task(name), 1, 512, [phrasing], torch.Generator().manual_seed(1), 20)
            assert len(passage.questions) == 20
    with pytest.raises(ValueError, match=r"size must be at most 533, got 534\. There are no more nouns"):
        plain(534, "test", draw())
    with pytest.raises(ValueError, match=r"size must be at most 2450, got 2451\. There are no more nouns"):
        similar(2451, "validation", draw())
    assert len(set(similar(2450, "validation", draw()))) == 2450


@pytest.mark.parametrize("phrasing", PHRASINGS)
def test_every_answer_stands_in_the_context_behind_its_key(phrasing):
    (passage,) = sample(find_task("lookup"), 1, 12, [phrasing], torch.Generator().manual_seed(0), 12)
    words = PHRASINGS[phrasing]
    before, after = words.question.split("{k}")
    for question, answer in passage.questions:
        key = question.removeprefix(before).removesuffix(after)
        assert words.pair.format(k=key, v=answer.strip()) in passage.context
        assert set(key.split("-")) <= set(NOUNS[words.split])


def test_the_kinds_of_keys():
    def hyphens(name):
        drawn = sample(find_task(name), 40, 4, ["list"], torch.Generator().manual_seed(0))
        return sum("-" in passage.context for passage in drawn)

    assert hyphens("lookup-similar") == 40
    assert hyphens("lookup-nouns") == 0
    assert 20 <= hyphens("lookup") <= 36
