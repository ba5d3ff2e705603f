"""A user's own prompts and answers, from a JSONL file or from Python, and the three parts they are cut into.

    {"prompt": "The capital of France is", "answer": "Paris"}          one line each; "context" and "size" are optional
    [("The capital of France is", "Paris"), …]                         the same from Python

Of a user's prompts, a fifth is kept to stop calibration by and a fifth to test on; the rest is calibrated on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import torch

from strop._checks import require
from strop.errors import ArgumentError
from strop.records import read_utf8
from strop.tasks.catalogue import generator_of
from strop.tasks.passages import Passage
from strop.tasks.prose import checksum

IN_MEMORY = "prompts in memory"
"""What prompts that come from no file are called."""

Pairs: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Prompts:
    """Passages of one question each, and where they come from.

    Examples:
        >>> prompts = Prompts.read([("The capital of France is", "Paris")] * 10)
        >>> [len(part) for part in prompts.split(seed=0)]
        [6, 2, 2]
    """

    name: str
    passages: tuple[Passage, ...]

    @classmethod
    def read(cls, source: str | Path | Pairs) -> Prompts:
        """Read a JSONL file, or pairs (prompt, answer)."""
        if isinstance(source, str | Path):
            return cls(str(source), tuple(read_jsonl(Path(source))))
        pairs = [_check_pair(pair, f"pair {i}") for i, pair in enumerate(source)]
        require(bool(pairs), "task must hold prompts", "an empty list")
        return cls(IN_MEMORY, tuple(_passage(*pair) for pair in pairs))

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
    """Read a line {"prompt": …, "answer": …} each, with an optional "size" and "context" before it."""
    lines = enumerate(read_utf8(path).split("\n"), 1)  # not splitlines, which also cuts at marks that JSON leaves alone
    passages = [_read_line(line, f"{path.name} line {i}") for i, line in lines if line.strip()]
    require(bool(passages), f"{path} must hold prompts", "an empty file")
    return passages


def _read_line(line: str, place: str) -> Passage:
    try:
        row = json.loads(line)
        prompt, answer, size = row["prompt"], row["answer"], int(row.get("size") or 0)
    except (ValueError, KeyError, TypeError) as error:
        raise ArgumentError(
            f'{place} must be {{"prompt": …, "answer": …}}, got {line[:60]!r}. Mend the line.'
        ) from error
    _check_words(prompt, answer, place, line[:60])
    return _passage(prompt, answer, str(row.get("context") or ""), size)


def _check_pair(pair: object, place: str) -> tuple[str, str]:
    two = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
    require(two, f"{place} must be (prompt, answer)", repr(pair)[:60])
    assert isinstance(pair, Sequence)
    _check_words(pair[0], pair[1], place, repr(pair)[:60])
    return pair[0], pair[1]


def _check_words(prompt: object, answer: object, place: str, shown: str) -> None:
    whole = isinstance(prompt, str) and isinstance(answer, str) and prompt != "" and answer.strip() != ""
    require(whole, f"{place} must have a prompt and an answer of text", shown)


def _passage(prompt: str, answer: str, context: str = "", size: int = 0) -> Passage:
    answer = answer if answer[0].isspace() or prompt[-1].isspace() else f" {answer}"
    return Passage(context, ((prompt, answer),), size, "jsonl")
