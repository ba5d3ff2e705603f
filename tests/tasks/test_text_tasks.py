"""Text tasks: the same seed gives the same passages, answers are right, splits never meet."""

import hashlib
import re

import pytest
import torch

from strop.tasks.catalogue import TASKS, draw_passages, find_task, generator_of
from strop.tasks.passages import Draw, sample
from strop.tasks.prose import SPLITS

GOLDEN = {
    "recall": "b962ef6d7b2234dc",
    "maximum": "6679c98d7a40d3b1",
    "passkey": "28106826b59b8dff",
    "variables": "3413ece331647117",
    "counting": "9a00492d9082acc5",
    "chains": "d33cc6259b33127a",
    "lookup": "82fbee379d6bf164",
    "lookup-similar": "ce79a8b8ab2f6f01",
    "lookup-nouns": "1d36674b4b35d16b",
}


@pytest.mark.parametrize("name", TASKS)
def test_the_same_seed_gives_the_same_bytes(name):
    task = find_task(name)
    made = repr(draw_passages(name, "train", 3, (2, 7), tuple(task.phrasings), 2, 3))
    assert hashlib.sha256(made.encode()).hexdigest()[:16] == GOLDEN[name]


@pytest.mark.parametrize("name", TASKS)
def test_splits_never_meet(name):
    task = find_task(name)
    texts = [{p.context for p in draw_passages(name, split, 0, (60,), tuple(task.phrasings), 4, 1)} for split in SPLITS]
    assert not texts[0] & texts[1]
    assert not texts[0] & texts[2]
    assert not texts[1] & texts[2]
    draws = [
        int(torch.randint(2**60, (), generator=generator_of(split, seed))) for split in SPLITS for seed in range(9)
    ]
    assert len(set(draws)) == 27


@pytest.mark.parametrize("name", TASKS)
def test_phrasings_are_held_out(name):
    task = find_task(name)
    assert task.held_out
    assert task.open_phrasings
    kinds = (*task.held_out, *task.stopping, *task.open_phrasings)
    assert sorted(kinds) == sorted(task.phrasings)


def test_recall_asks_for_pairs_that_are_there():
    for phrasing in find_task("recall").phrasings:
        (passage,) = sample(find_task("recall"), 1, 20, [phrasing], torch.Generator().manual_seed(0), 5)
        assert len({question for question, _ in passage.questions}) == 5
        for _, answer in passage.questions:
            assert passage.context.count(answer.strip()) == 1


def test_recall_has_names_for_large_sizes():
    (passage,) = sample(find_task("recall"), 1, 1000, ["list"], torch.Generator().manual_seed(0), 1)
    keys = [line.split(":")[0] for line in passage.context.splitlines()]
    assert len(set(keys)) == 1000
    with pytest.raises(ValueError, match="size must be at most"):
        sample(find_task("recall"), 1, 10_000, ["list"], torch.Generator().manual_seed(0), 1)


def test_the_answers_of_the_other_tasks_are_right():
    draw = torch.Generator().manual_seed(0)
    (passage,) = sample(find_task("maximum"), 1, 30, ["scores"], draw)
    numbers = [int(word) for word in passage.context.removeprefix("Scores: ").rstrip(". ").split(", ")]
    assert len(numbers) == 30
    assert int(passage.questions[0][1]) == max(numbers)
    (passage,) = sample(find_task("passkey"), 1, 9, ["safe"], draw)
    assert f"safe is{passage.questions[0][1]}." in passage.context
    assert passage.context.count(".") == 10
    (passage,) = sample(find_task("counting"), 1, 15, ["votes"], draw)
    words = passage.context.removeprefix("Votes: ").rstrip(". ").split()
    assert len(words) == 15
    assert words.count(passage.questions[0][1].strip()) >= 9
    (passage,) = sample(find_task("variables"), 1, 12, ["code"], draw, 3)
    values: dict[str, str] = {}
    for line in passage.context.splitlines():
        name, _, value = line.partition(" = ")
        values[name] = values.get(value, value)
    for question, answer in passage.questions:
        assert values[question.removeprefix("print(").split(")")[0]] == answer.strip()


def test_wrong_asks_are_refused():
    task, draw = find_task("recall"), torch.Generator()
    with pytest.raises(ValueError, match="Did you mean 'recall'"):
        find_task("recal")
    with pytest.raises(ValueError, match="phrasing of recall must be known"):
        sample(task, 1, 3, ["cod"], draw)
    with pytest.raises(ValueError, match="at least 1"):
        sample(task, 1, 0, ["code"], draw)
    with pytest.raises(ValueError, match="at least one phrasing"):
        sample(task, 1, 3, [], draw)


def test_draws_are_within_bounds():
    draw = Draw(torch.Generator().manual_seed(0))
    assert {draw.integer(3, 6) for _ in range(50)} == {3, 4, 5}
    assert sorted(draw.some("abc", 3)) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["recall", "maximum", "passkey", "variables"])
def test_evidence_is_where_the_answer_stands(name):
    task = find_task(name)
    for passage in draw_passages(name, "test", 1, (1, 9), tuple(task.phrasings), 3, 4):
        assert len(passage.evidence) == len(passage.questions)
        for (_, answer), spans in zip(passage.questions, passage.evidence, strict=True):
            assert [passage.context[first:last] for first, last in spans] == [answer.strip()]


def test_evidence_of_recall_is_in_the_pair_that_is_asked_for():
    for passage in draw_passages("recall", "test", 1, (9,), ("list", "python"), 2, 4):
        for (question, _), ((start, _),) in zip(passage.questions, passage.evidence, strict=True):
            key = question.split("'")[1] if "'" in question else question.rstrip(":")
            line = passage.context[: passage.context.index("\n", start)].splitlines()[-1]
            assert key in line


def test_evidence_of_counting_is_every_word_that_counts():
    for passage in draw_passages("counting", "test", 1, (9,), ("colours", "votes"), 4, 1):
        words = passage.context.split(": ")[1].rstrip(". ").split()
        found = [passage.context[first:last] for first, last in passage.evidence[0]]
        assert found == [passage.questions[0][1].strip()] * words.count(found[0])


@pytest.mark.parametrize(
    ("phrasing", "line"),
    [
        ("code", r"(\w+) = (\w+)"),
        ("boxes", r"Box (\w+) has (?:as many as box )?(\w+)"),
        ("people", r"(\w+) is (?:in room|with) (\w+)"),
    ],
)
def test_chains_are_all_names_with_a_number_and_none_of_the_example(phrasing, line):
    (passage,) = sample(find_task("chains"), 1, 14, [phrasing], torch.Generator().manual_seed(0), 9)
    example, text = passage.context.split("\n\n")
    assert len(passage.questions) == 4
    values: dict[str, str] = {}
    for name, source in re.findall(line, text):
        values[name] = values.get(source, source)
    assert len(values) == 14
    for (question, answer), spans in zip(passage.questions, passage.evidence, strict=True):
        (number,) = re.findall(r"\d+", question)
        names = [name for name, value in values.items() if value == number]
        assert names
        assert [passage.context[a:b] for a, b in spans] == names
        assert answer.replace(" and ", " ").replace(",", "").split() == names
        assert not set(names) & set(re.findall(r"\w+", example))
