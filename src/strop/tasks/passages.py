"""What a text task is made of: a passage to read, and questions about it whose answers are known.

    context    "The code of pear is 4410. The code of oak is 7314. "
    question   "The code of oak is"          answer " 7314"

A task is sized: `size` is the number of things that compete for attention (pairs, numbers, sentences). It has several
phrasings; those in `held_out` are kept from calibration, so that a gain on them is a gain on the task and not on its
words. Those in `stopping` tell a calibration when to stop. Randomness is the generator's alone: the same seed gives
the same passages.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, TypeVar

import torch
from torch import Generator

from strop._checks import require, require_known

T = TypeVar("T")

Span: TypeAlias = tuple[int, int]
"""Where some words stand in a text: its first character, and the one after the last."""


@dataclass(frozen=True)
class Passage:
    """A context and pairs (question, answer) about it; a model reads context + question and should write the answer.

    `evidence` says for each question where the words that hold its answer stand, in characters of context + question:
    in one place or in several. It is empty where nobody said, and no part of the printed passage.

    Examples:
        >>> Passage("Oak is 7. Pear is 4. ", (("Oak is", " 7"),), size=2).questions
        (('Oak is', ' 7'),)
    """

    context: str
    questions: tuple[tuple[str, str], ...]
    size: int = 0
    phrasing: str = ""
    evidence: tuple[tuple[Span, ...], ...] = field(default=(), repr=False)


class TextTask(ABC):
    """A generator of passages.

    Attributes:
        name: The task's name.
        phrasings: All phrasings by name.
        held_out: Phrasings that calibration must not use.
        stopping: Phrasings that calibration stops by and does not descend on. None: those that it descends on.

    Examples:
        >>> from strop.tasks import TASKS
        >>> TASKS["counting"].open_phrasings
        ('colours', 'votes')
    """

    name: str
    phrasings: ClassVar[Mapping[str, object]]
    held_out: ClassVar[tuple[str, ...]] = ()
    stopping: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Make one passage with at most `questions` questions."""

    @property
    def open_phrasings(self) -> tuple[str, ...]:
        """The phrasings that calibration may descend on."""
        return tuple(name for name in self.phrasings if name not in (*self.held_out, *self.stopping))


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


def find_words(text: str, words: str) -> tuple[Span, ...]:
    """Return every place where some words stand in a text."""
    return tuple((found.start(), found.end()) for found in re.finditer(re.escape(words), text))


def place_field(template: str, field: str, fields: Mapping[str, str], start: int = 0) -> Span:
    """Return where a field stands in its formatted template, which begins at `start`."""
    before = start + len(template.partition(f"{{{field}}}")[0].format(**fields))
    return before, before + len(fields[field])


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
