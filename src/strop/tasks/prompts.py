"""A user's own prompts and answers, from a JSONL file or from Python, and the three parts they are cut into.

    {"prompt": "The capital of France is", "answer": "Paris"}          one line each; "context" and "size" are optional
    [("The capital of France is", "Paris"), …]                         the same from Python
    {"prompt": "Oak is 7. Pear is 4. Oak is", "answer": "7", "evidence": "7"}      where the answer can be found
    [("Oak is 7. Pear is 4. Oak is", "7", "7"), …]                     the same from Python

Evidence is words of the prompt, or a list of them; wherever they stand in it, they are evidence.

Of a user's prompts, a fifth is kept to stop calibration by and a fifth to test on; the rest is calibrated on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import torch

from strop._checks import require
from strop.errors import ArgumentError
from strop.records import read_utf8
from strop.tasks.catalogue import generator_of
from strop.tasks.passages import Passage, Span, find_words
from strop.tasks.prose import checksum

IN_MEMORY = "prompts in memory"
"""What prompts that come from no file are called."""

Pairs: TypeAlias = Sequence[tuple[str, str] | tuple[str, str, str]]


@dataclass(frozen=True)
class Prompts:
    """Passages of one question each, where they come from, and what the line of each is called.

    Examples:
        >>> prompts = Prompts.read([("The capital of France is", "Paris")] * 10)
        >>> [len(part) for part in prompts.split(seed=0)]
        [6, 2, 2]
    """

    name: str
    passages: tuple[Passage, ...]
    lines: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def read(cls, source: str | Path | Pairs) -> Prompts:
        """Read a JSONL file, or pairs (prompt, answer)."""
        if isinstance(source, str | Path):
            path, found = Path(source), _read_lines(Path(source))
            return cls(str(source), tuple(found.values()), tuple(f"{path.name} line {i}" for i in found))
        made = tuple(_read_pair(pair, f"pair {i}") for i, pair in enumerate(source))
        require(bool(made), "task must hold prompts", "an empty list")
        return cls(IN_MEMORY, made, tuple(f"pair {i}" for i in range(len(made))))

    @cached_property
    def checksum(self) -> str:
        """A checksum of the prompts, whatever their file is called."""
        return checksum(repr(list(self.passages)))

    def split(self, seed: int) -> tuple[list[Passage], list[Passage], list[Passage]]:
        """Return three parts: to calibrate on, a fifth to stop by and a fifth to test on."""
        require(len(self.passages) >= 5, f"{self.name} must hold at least 5 prompts", len(self.passages))
        order = torch.randperm(len(self.passages), generator=generator_of("train", seed)).tolist()
        fifth = len(self.passages) // 5
        cuts = order[2 * fifth :], order[:fifth], order[fifth : 2 * fifth]
        learned, validated, tested = ([self.passages[i] for i in cut] for cut in cuts)
        return learned, validated, tested


def read_jsonl(path: Path) -> list[Passage]:
    """Read a line {"prompt": …, "answer": …} each, with an optional "size", "evidence" and "context" before it."""
    return list(_read_lines(path).values())


def _read_lines(path: Path) -> dict[int, Passage]:
    """Passages by the number of their line."""
    lines = enumerate(read_utf8(path).split("\n"), 1)  # not splitlines, which also cuts at marks that JSON leaves alone
    passages = {i: _read_line(line, f"{path.name} line {i}") for i, line in lines if line.strip()}
    require(bool(passages), f"{path} must hold prompts", "an empty file")
    return passages


def _read_line(line: str, place: str) -> Passage:
    try:
        row = json.loads(line)
        prompt, answer = row["prompt"], row["answer"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArgumentError(
            f'{place} must be {{"prompt": …, "answer": …}}, got {line[:60]!r}. Mend the line.'
        ) from error
    _check_words(prompt, answer, place, line[:60])
    try:
        size = int(row.get("size") or 0)
    except (ValueError, TypeError, OverflowError):
        size = -1
    require(size >= 0, f'{place} must have a number as its "size", or none', repr(row.get("size"))[:60])
    context = str(row.get("context") or "")
    evidence = _find_evidence(context + prompt, row["evidence"], place) if "evidence" in row else None
    return _passage(prompt, answer, context, size, evidence)


def _read_pair(pair: object, place: str) -> Passage:
    several = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) in (2, 3)
    require(several, f"{place} must be (prompt, answer) or (prompt, answer, evidence)", repr(pair)[:60])
    assert isinstance(pair, Sequence)
    _check_words(pair[0], pair[1], place, repr(pair)[:60])
    return _passage(pair[0], pair[1], evidence=_find_evidence(pair[0], pair[2], place) if len(pair) == 3 else None)


def _find_evidence(text: str, evidence: object, place: str) -> tuple[Span, ...]:
    """Every place where the evidence stands in what is read."""
    given = [evidence] if isinstance(evidence, str) else evidence if isinstance(evidence, list | tuple) else []
    words = [each for each in given if isinstance(each, str) and each.strip()]
    whole = len(words) == len(given) > 0
    rule = f"{place} must have words as its evidence, or a list of them"
    require(whole, rule, repr(evidence)[:60], "Give the words of the prompt that hold the answer")
    for each in words:
        remedy = "Copy it from the prompt as it is"
        require(each in text, f"{place} must have evidence that stands in its prompt", repr(each[:60]), remedy)
    return tuple(sorted({span for each in words for span in find_words(text, each)}))


def _check_words(prompt: object, answer: object, place: str, shown: str) -> None:
    whole = isinstance(prompt, str) and isinstance(answer, str) and prompt != "" and answer.strip() != ""
    require(whole, f"{place} must have a prompt and an answer of text", shown)


def _passage(
    prompt: str, answer: str, context: str = "", size: int = 0, evidence: tuple[Span, ...] | None = None
) -> Passage:
    answer = answer if answer[0].isspace() or prompt[-1].isspace() else f" {answer}"
    return Passage(context, ((prompt, answer),), size, "jsonl", () if evidence is None else (evidence,))
