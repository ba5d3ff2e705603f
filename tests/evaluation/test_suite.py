"""Which prompts a model is measured on."""

from dataclasses import replace

import pytest

from strop.evaluation.suite import Suite, find_hopeless, plan_test
from strop.tasks.prompts import Prompts

SMALL = Suite(sizes=(2, 3), phrasings=("code",), prompts=4, questions=2, lengths=(24, 32), windows=2)


def test_a_suite_asks_nothing_twice():
    for changes in ({"sizes": (2, 2)}, {"phrasings": ("code", "code")}, {"lengths": (24, 24)}):
        with pytest.raises(ValueError, match="must not repeat, got"):
            replace(SMALL, **changes)


def test_prompts_are_as_many_as_asked_and_of_the_test_split():
    suite = Suite(task="maximum", sizes=(5,), prompts=6, questions=8)
    passages = suite.passages()
    assert len(passages) == 3 * 6  # one question a list, three phrasings: one known and two held out
    assert Suite(sizes=(3,), prompts=9, questions=8, phrasings=("room",)).passages()[0].questions[2:]
    assert suite.checksum() != Suite(task="maximum", sizes=(5,), prompts=6, seed=1).checksum()
    with pytest.raises(ValueError, match="prompts must be at least 1"):
        Suite(prompts=0)


def test_own_prompts_are_all_asked_or_the_fifth_kept_for_testing():
    own = Prompts.read([(f"{i} is", f"{i}") for i in range(20)])
    assert Suite(data="own").passages(own) == list(own.passages)
    held = Suite(data="own", held=True, seed=3).passages(own)
    assert held == own.split(3)[2]
    assert len(held) == 4
    assert not {*held} & {*own.split(3)[0], *own.split(3)[1]}
    assert len({Suite(data="own").checksum(own), Suite(data="own", held=True).checksum(own)}) == 2


class Made:
    """What is asked of an edge: how it was made."""

    def __init__(self, **changes):
        recipe = {"task": "recall", "sizes": [8, 24], "seed": 3, "prose": None, "lengths": [64], "data": None}
        self.made = {"recipe": recipe | changes}


def test_a_first_test_is_at_the_largest_size_and_twice_it():
    plan = plan_test(Made(), 40)
    expected = {"task": "recall", "sizes": (24, 48), "prompts": 40, "windows": 4, "seed": 3, "lengths": (64,)}
    assert plan == expected | {"prose": None}
    assert plan_test(Made(task="text"), 8)["task"] == "recall"
    assert plan_test(Made(task="maximum", sizes=[8, 450]), 8)["sizes"] == (450, 900)
    assert plan_test(Made(task="maximum", sizes=[8, 451]), 8)["sizes"] == (451,)  # there are 900 numbers
    assert "task" not in plan_test(Made(task="jsonl", data="own.jsonl"), 8)


@pytest.mark.parametrize(("prompts", "hopeless"), [(40, True), (41, False), (48, False)])
def test_too_few_passages_are_named_with_the_prompts_that_it_takes(prompts, hopeless):
    said = find_hopeless(Suite(sizes=(8, 16), prompts=prompts).passages())
    assert ("no difference can be significant: 6 are needed. Ask for at least --prompts 48." in said) == hopeless
    assert hopeless or said == ""
