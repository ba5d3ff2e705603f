"""A user's own prompts, from a file or from Python."""

from pathlib import Path

import pytest

from strop.tasks.passages import Passage
from strop.tasks.prompts import IN_MEMORY, Prompts, read_jsonl


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


def test_own_prompts_fall_into_three_parts(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(f'{{"prompt": "{i}", "answer": "a", "context": null}}' for i in range(11)))
    parts = Prompts.read(str(path)).split(seed=3)
    numbers = [[int(passage.questions[0][0]) for passage in part] for part in parts]
    assert numbers == [[3, 7, 0, 1, 5, 10, 6], [4, 9], [2, 8]]  # a seed means the same prompts for ever
    assert [len(part) for part in parts] == [7, 2, 2]
    assert sorted(int(passage.questions[0][0]) for part in parts for passage in part) == list(range(11))
    assert {passage.context for part in parts for passage in part} == {""}
    path.write_text('{"prompt": "a", "answer": "b", "size": "big"}')
    with pytest.raises(ValueError, match=r"own.jsonl line 1 must have a number as its"):
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


def test_pairs_are_the_same_prompts_as_their_file(tmp_path: Path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(f'{{"prompt": "{i} is", "answer": "a{i}"}}' for i in range(10)))
    pairs, file = Prompts.read([(f"{i} is", f"a{i}") for i in range(10)]), Prompts.read(path)
    assert pairs.passages == file.passages
    assert pairs.checksum == file.checksum
    assert pairs.split(2) == file.split(2)
    assert (pairs.name, file.name) == (IN_MEMORY, str(path))
    assert pairs.checksum != Prompts.read([(f"{i} is", f"b{i}") for i in range(10)]).checksum


def test_pairs_that_make_no_sense_are_refused():
    for pairs, words in (
        ([], r"task must hold prompts, got an empty list"),
        ([("a", "b"), "ab"], r"pair 1 must be \(prompt, answer\) or \(prompt, answer, evidence\), got 'ab'"),
        ([("a", "b", "c", "d")], r"pair 0 must be .*, got \('a', 'b', 'c', 'd'\)"),
        ([("a", "b", "c")], r"pair 0 must have evidence that stands in its prompt, got 'c'"),
        ([("a", 3)], r"pair 0 must have a prompt and an answer of text, got \('a', 3\)"),
        ([("a", " ")], r"pair 0 must have a prompt and an answer of text"),
    ):
        with pytest.raises(ValueError, match=words):
            Prompts.read(pairs)
    with pytest.raises(ValueError, match=f"{IN_MEMORY} must hold at least 5 prompts, got 4"):
        Prompts.read([("a", "b")] * 4).split(0)


def test_evidence_is_found_wherever_it_stands(tmp_path: Path):
    path = tmp_path / "own.jsonl"
    path.write_text(
        '{"prompt": "7 or 4 or 7?", "answer": "7", "evidence": "7"}\n\n'
        '{"context": "Oak is 7. ", "prompt": "Oak is", "answer": "7", "evidence": ["Oak", "7"]}\n'
        '{"prompt": "Oak is", "answer": "7"}\n'
    )
    prompts = Prompts.read(path)
    assert [passage.evidence for passage in prompts.passages] == [
        (((0, 1), (10, 11)),),
        (((0, 3), (7, 8), (10, 13)),),
        (),
    ]
    assert prompts.lines == ("own.jsonl line 1", "own.jsonl line 3", "own.jsonl line 4")
    assert Prompts.read([("7 or 4?", "7", "7")]).passages[0].evidence == (((0, 1),),)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ('"eight"', r"own.jsonl line 2 must have evidence that stands in its prompt, got 'eight'. Copy it"),
        ('""', "line 2 must have words as its evidence, or a list of them, got ''"),
        ("[]", r"line 2 must have words as its evidence, or a list of them, got \[\]"),
        ('["7", " "]', "line 2 must have words as its evidence"),
        ("7", "line 2 must have words as its evidence, or a list of them, got 7"),
        ("null", "line 2 must have words as its evidence, or a list of them, got None"),
    ],
)
def test_evidence_that_cannot_be_found_is_told_with_its_line(tmp_path: Path, evidence: str, words: str):
    path = tmp_path / "own.jsonl"
    path.write_text(f'{{"prompt": "7", "answer": "7"}}\n{{"prompt": "7", "answer": "7", "evidence": {evidence}}}\n')
    with pytest.raises(ValueError, match=words):
        Prompts.read(path)
