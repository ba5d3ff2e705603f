"""Look-up: keys that share halves, other nouns to descend on, to stop by and to test on."""

import math
import re
from collections import Counter
from itertools import combinations

import pytest
import torch

from strop.tasks.builtin.lookup import DRAWN, PHRASINGS
from strop.tasks.catalogue import find_task
from strop.tasks.nouns import NOUNS, plain, similar
from strop.tasks.passages import Draw, sample
from strop.tasks.words import ORDINARY


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


@pytest.mark.parametrize("count", [1, 2, 3, 8, 24, 512, 2450])
def test_dense_keys_share_more_halves(count):
    most, seen = 0, draw()
    for _ in range(30):
        keys = similar(count, "validation", seen, dense=True)
        assert len(set(keys)) == count
        first, second = (Counter(key.split("-")[i] for key in keys) for i in (0, 1))
        assert not set(first) & set(second)
        assert len(first) * len(second) < count + max(len(first), len(second))
        most = max(most, *first.values(), *second.values())
    fewest = max(2, math.ceil(2 * count / len(NOUNS["validation"])))
    assert most >= count // fewest - 1


def test_wordings_to_descend_on_alone_have_dense_keys():
    def share(phrasing):
        drawn = sample(find_task("lookup-similar"), 60, 24, [phrasing], torch.Generator().manual_seed(0))
        counts = (Counter(re.findall(r"(\w+)-\w+", passage.context)) for passage in drawn)
        return sum(max(one.values()) >= 10 or len(one) >= 10 for one in counts)

    assert share("list") > 10
    assert share("ticket") == share("shelf") == 0


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


@pytest.mark.parametrize("phrasing", [name for name in PHRASINGS if name != DRAWN])
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


def test_a_drawn_wording_is_another_one_in_every_passage_and_the_key_tells_the_value():
    drawn = sample(find_task("lookup-similar"), 40, 6, [DRAWN], torch.Generator().manual_seed(0), 6)
    own = 0
    for passage in drawn:
        for question, answer in passage.questions:
            (key,) = (word.strip(":=,") for word in question.split() if "-" in word and word != "->")
            after = passage.context.partition(key)[2]
            assert passage.context.count(key) == 1
            assert re.search(r"\d{4}", after)[0] == answer.strip()
            own += question not in passage.context
            assert set(re.findall("[a-z]+", question.replace(key, ""))) <= set(ORDINARY)
    assert len({passage.context for passage in drawn}) == 40
    assert 0.3 < own / 240 < 0.7  # about every other question has words of its own
    assert all(
        re.search(re.escape(q) + re.escape(a), p.context) for p in drawn for q, a in p.questions if q in p.context
    )
