import hashlib
from pathlib import Path

import pytest
import torch

from strop.tasks.catalogue import TASKS, drawn, generator_of, own, task_named
from strop.tasks.passages import Draw, Passage, read_jsonl, sample, seen
from strop.tasks.prose import SPLITS, prose

GOLDEN = {
    "recall": "b962ef6d7b2234dc",
    "maximum": "6679c98d7a40d3b1",
    "passkey": "28106826b59b8dff",
    "variables": "3413ece331647117",
    "counting": "9a00492d9082acc5",
}


@pytest.mark.parametrize("name", TASKS)
def test_the_same_seed_gives_the_same_bytes(name):
    task = task_named(name)
    made = repr(drawn(name, "train", 3, (2, 7), tuple(task.phrasings), 2, 3))
    assert hashlib.sha256(made.encode()).hexdigest()[:16] == GOLDEN[name]


@pytest.mark.parametrize("name", TASKS)
def test_splits_never_meet(name):
    task = task_named(name)
    texts = [{p.context for p in drawn(name, split, 0, (60,), tuple(task.phrasings), 4, 1)} for split in SPLITS]
    assert not texts[0] & texts[1]
    assert not texts[0] & texts[2]
    assert not texts[1] & texts[2]
    draws = [
        int(torch.randint(2**60, (), generator=generator_of(split, seed))) for split in SPLITS for seed in range(9)
    ]
    assert len(set(draws)) == 27


@pytest.mark.parametrize("name", TASKS)
def test_phrasings_are_held_out(name):
    task = task_named(name)
    assert task.held_out
    assert seen(task)
    assert set(task.held_out) | set(seen(task)) == set(task.phrasings)
    assert not set(task.held_out) & set(seen(task))


def test_recall_asks_for_pairs_that_are_there():
    for phrasing in task_named("recall").phrasings:
        (passage,) = sample(task_named("recall"), 1, 20, [phrasing], torch.Generator().manual_seed(0), 5)
        assert len({question for question, _ in passage.questions}) == 5
        for _, answer in passage.questions:
            assert passage.context.count(answer.strip()) == 1


def test_recall_has_names_for_large_sizes():
    (passage,) = sample(task_named("recall"), 1, 1000, ["list"], torch.Generator().manual_seed(0), 1)
    keys = [line.split(":")[0] for line in passage.context.splitlines()]
    assert len(set(keys)) == 1000
    with pytest.raises(ValueError, match="size must be at most"):
        sample(task_named("recall"), 1, 10_000, ["list"], torch.Generator().manual_seed(0), 1)


def test_the_answers_of_the_other_tasks_are_right():
    draw = torch.Generator().manual_seed(0)
    (passage,) = sample(task_named("maximum"), 1, 30, ["scores"], draw)
    numbers = [int(word) for word in passage.context.removeprefix("Scores: ").rstrip(". ").split(", ")]
    assert len(numbers) == 30
    assert int(passage.questions[0][1]) == max(numbers)
    (passage,) = sample(task_named("passkey"), 1, 9, ["safe"], draw)
    assert f"safe is{passage.questions[0][1]}." in passage.context
    assert passage.context.count(".") == 10
    (passage,) = sample(task_named("counting"), 1, 15, ["votes"], draw)
    words = passage.context.removeprefix("Votes: ").rstrip(". ").split()
    assert len(words) == 15
    assert words.count(passage.questions[0][1].strip()) >= 9
    (passage,) = sample(task_named("variables"), 1, 12, ["code"], draw, 3)
    values: dict[str, str] = {}
    for line in passage.context.splitlines():
        name, _, value = line.partition(" = ")
        values[name] = values.get(value, value)
    for question, answer in passage.questions:
        assert values[question.removeprefix("print(").split(")")[0]] == answer.strip()


def test_wrong_asks_are_refused():
    task, draw = task_named("recall"), torch.Generator()
    with pytest.raises(ValueError, match="Did you mean 'recall'"):
        task_named("recal")
    with pytest.raises(ValueError, match="phrasing of recall must be known"):
        sample(task, 1, 3, ["cod"], draw)
    with pytest.raises(ValueError, match="at least 1"):
        sample(task, 1, 0, ["code"], draw)
    with pytest.raises(ValueError, match="at least one phrasing"):
        sample(task, 1, 3, [], draw)


def test_a_users_prompts_are_read(tmp_path: Path):
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "Two and two is", "answer": "four"}\n\n{"prompt": "A ", "answer": "b", "size": 3}\n')
    four, b = read_jsonl(path)
    assert four == Passage("", (("Two and two is", " four"),), 0, "jsonl")
    assert b.questions == (("A ", "b"),)
    assert b.size == 3
    for text, words in (
        ("{}", "line 1 must be"),
        ("", "must hold prompts"),
        ('{"prompt": "", "answer": "b"}', "must have"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_jsonl(path)


def test_prose_has_three_parts_without_a_paragraph_in_common(tmp_path: Path):
    parts = [set(prose(split).split("\n\n")) for split in SPLITS]
    assert all(sum(map(len, part)) > 20_000 for part in parts)
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    path = tmp_path / "own.txt"
    path.write_text("abcdef")
    assert [prose(split, str(path)) for split in SPLITS] == ["ab", "cd", "ef"]


def test_draws_are_within_bounds():
    draw = Draw(torch.Generator().manual_seed(0))
    assert {draw.integer(3, 6) for _ in range(50)} == {3, 4, 5}
    assert sorted(draw.some("abc", 3)) == ["a", "b", "c"]


def test_own_prompts_fall_into_three_parts(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(f'{{"prompt": "{i}", "answer": "a", "context": null}}' for i in range(11)))
    parts = own(str(path), seed=3)
    assert [len(part) for part in parts] == [7, 2, 2]
    assert sorted(int(passage.questions[0][0]) for part in parts for passage in part) == list(range(11))
    assert {passage.context for part in parts for passage in part} == {""}
    path.write_text('{"prompt": "a", "answer": "b", "size": "big"}')
    with pytest.raises(ValueError, match=r"own.jsonl line 1 must be"):
        read_jsonl(path)


def test_lines_of_prompts_are_those_of_the_file(tmp_path):
    """JSON leaves marks alone that Python takes for ends of lines, and blank lines count."""
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "a\u2028b\u0085c", "answer": "d"}\n', encoding="utf-8")
    assert read_jsonl(path)[0].questions == (("a\u2028b\u0085c", " d"),)
    path.write_text('{"prompt": "a", "answer": "b"}', encoding="utf-8-sig")  # as some editors begin a file
    assert len(read_jsonl(path)) == 1
    path.write_text('{"prompt": "a", "answer": "b"}\r\n\r\n{}\r\n')
    with pytest.raises(ValueError, match=r"own.jsonl line 3 must be"):
        read_jsonl(path)
