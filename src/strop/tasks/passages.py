"""What a text task is made of: a passage to read, and questions about it whose answers are known.

    context    "The code of pear is 4410. The code of oak is 7314. "
    question   "The code of oak is"          answer " 7314"

A task is sized: `size` is the number of things that compete for attention (pairs, numbers, sentences). It has several
phrasings; those in `held_out` are kept from calibration, so that a gain on them is a gain on the task and not on its
words. Randomness is the generator's alone: the same seed gives the same passages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import Generator

from strop._checks import require, require_known
from strop.records.errors import told_plainly

T = TypeVar("T")


@dataclass(frozen=True)
class Passage:
    """A context and pairs (question, answer) about it; a model reads context + question and should write the answer."""

    context: str
    questions: tuple[tuple[str, str], ...]
    size: int = 0
    phrasing: str = ""


class TextTask(Protocol):
    """A generator of passages."""

    @property
    def name(self) -> str:
        """The task's name."""
        ...

    @property
    def phrasings(self) -> Mapping[str, object]:
        """All phrasings by name."""
        ...

    @property
    def held_out(self) -> tuple[str, ...]:
        """Phrasings that calibration must not use."""
        ...

    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Make one passage with at most `questions` questions."""
        ...


class Draw:
    """Plain choices from a torch generator."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    def integer(self, low: int, high: int) -> int:
        """Return an integer in low..high−1."""
        return int(torch.randint(low, high, (), generator=self.generator))

    def one(self, things: Sequence[T]) -> T:
        """Return one of the things."""
        return things[self.integer(0, len(things))]

    def some(self, things: Sequence[T], count: int) -> list[T]:
        """Return `count` different ones, in random order."""
        chosen = torch.randperm(len(things), generator=self.generator)[:count].tolist()
        return [things[i] for i in chosen]


def sample(
    task: TextTask, count: int, size: int, phrasings: Sequence[str], generator: Generator, questions: int = 1
) -> list[Passage]:
    """Draw `count` passages of one size, taking the phrasings in turn."""
    numbers = (count, size, questions)
    require(min(numbers) >= 1, "count, size and questions must be at least 1", numbers)
    require(len(phrasings) > 0, "phrasings must name at least one phrasing", "none")
    for phrasing in phrasings:
        require_known(f"phrasing of {task.name}", phrasing, task.phrasings)
    draw = Draw(generator)
    return [task.passage(size, phrasings[i % len(phrasings)], questions, draw) for i in range(count)]


def seen(task: TextTask) -> tuple[str, ...]:
    """Return the phrasings that calibration may use."""
    return tuple(name for name in task.phrasings if name not in task.held_out)


def read_jsonl(path: Path) -> list[Passage]:
    """Read a user's task: a line {"prompt": …, "answer": …} each, with an optional "size" and "context" before it."""
    lines = enumerate(read_utf8(path).split("\n"), 1)  # not splitlines, which also cuts at marks that JSON leaves alone
    passages = [_passage(line, f"{path.name} line {i}") for i, line in lines if line.strip()]
    require(bool(passages), f"{path} must hold prompts", "an empty file")
    return passages


def read_utf8(path: Path) -> str:
    """Read a user's text, or say what is wrong with it."""
    try:
        with told_plainly(path):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text, got other bytes. Convert it first.") from error


def _passage(line: str, place: str) -> Passage:
    try:
        row = json.loads(line)
        prompt, answer, size = row["prompt"], row["answer"], int(row.get("size") or 0)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{place} must be {{"prompt": …, "answer": …}}, got {line[:60]!r}. Mend the line.') from error
    whole = isinstance(prompt, str) and isinstance(answer, str) and prompt != "" and answer.strip() != ""
    require(whole, f"{place} must have a prompt and an answer of text", line[:60])
    answer = answer if answer[0].isspace() or prompt[-1].isspace() else f" {answer}"
    return Passage(str(row.get("context") or ""), ((prompt, answer),), size, "jsonl")
