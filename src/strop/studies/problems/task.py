"""What a size-generalisation task is: batches of problems of one size, and a solver that is always right.

A *set* task shows n items without order and a query, and asks for one class. A *sequence* task shows tokens and asks,
at some positions, what the model should say there: the logits at position t are held against target[t], and IGNORE
marks positions at which nothing is asked.

Training draws sizes from the closed range `train_sizes`; `test_sizes` go far beyond. What a task draws depends on its
settings, the size, the split and the generator alone. Draws are uniform numbers and integers, whose bytes are the same
on every machine; normal ones are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from strop._checks import require, require_known

IGNORE = -100
"""The target where nothing is asked; torch's cross-entropy skips it."""

SIZES_OF_SETS = (16, 64, 256, 1024, 4096, 16384)


@dataclass(frozen=True)
class Problems:
    """A batch of problems of one size, as a task draws it.

    Args:
        inputs: items of sets, float32 [count, n, features], or tokens of sequences, int64 [count, T].
        query: what is asked of sets, float32 [count, query_features]; None for sequences.
        target: the right class of sets, int64 [count]; of sequences int64 [count, T], IGNORE where nothing is asked.
        size: the size that was asked for.

    Examples:
        >>> from strop.studies.problems import find_problem, stream
        >>> problems = find_problem("max_retrieval").sample(count=3, size=5, generator=stream("example"))
        >>> tuple(problems.inputs.shape), tuple(problems.query.shape), tuple(problems.answers.shape)
        ((3, 5, 11), (3, 1), (3,))
    """

    inputs: Tensor
    query: Tensor | None
    target: Tensor
    size: int

    @property
    def arguments(self) -> tuple[Tensor, Tensor]:
        """What a model is called with: items and query, or tokens and where something is asked [count, T]."""
        return self.inputs, self.target != IGNORE if self.query is None else self.query

    @property
    def answers(self) -> Tensor:
        """What a model should answer to `arguments`: the targets that are asked for, int64 [answers]."""
        return self.target[self.target != IGNORE]

    def first(self, count: int) -> Problems:
        """Return the first few problems."""
        query = None if self.query is None else self.query[:count]
        return Problems(self.inputs[:count], query, self.target[:count], self.size)


class Task(ABC):
    """A seeded generator of problems and its reference solver; a subclass is a frozen dataclass of settings.

    Examples:
        >>> from strop.studies.problems import find_problem, stream
        >>> task = find_problem("copy", symbols=4)
        >>> problems = task.sample(2, size=3, generator=stream("example"))
        >>> bool((task.solve(problems) == problems.target).all())
        True
        >>> task.train_sizes, task.length(16), task.chance(16)
        ((4, 16), 32, 0.25)
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["set", "sequence"]]
    control: ClassVar[bool] = False
    """True where every item matters, so that sharpness must not win."""
    train_sizes: ClassVar[tuple[int, int]]
    test_sizes: ClassVar[tuple[int, ...]]
    splits: ClassVar[tuple[str, ...]] = ("test",)
    """What is tested at every test size; "train" and "test" are always known and, by themselves, alike."""
    smallest: ClassVar[int] = 1

    @property
    def largest(self) -> int | None:
        """The largest size there is, or None where there is no end."""
        return None

    def sample(self, count: int, size: int, generator: Generator, split: str = "train") -> Problems:
        """Draw `count` problems of one size; the generator alone decides what is drawn.

        Args:
            count: how many problems.
            size: items or, for sequences, whatever the task's size counts.
            generator: where all randomness comes from.
            split: "train", "test" or one of `splits`.
        """
        require(count >= 1, "count must be at least 1", count, "Ask for one problem or more")
        require(size >= self.smallest, f"size of {self.name} must be at least {self.smallest}", size)
        end = self.largest
        require(end is None or size <= end, f"size of {self.name} must be at most {end}", size)
        require_known("split", split, dict.fromkeys(("train", "test", *self.splits)))
        return self._draw(count, size, generator, split)

    @abstractmethod
    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        """Draw, once the door has checked the arguments."""

    @abstractmethod
    def solve(self, problems: Problems) -> Tensor:
        """Return the right answers, in the target's shape, from the inputs and the query alone."""

    @abstractmethod
    def length(self, size: int) -> int:
        """Return the number of items or tokens of a problem of this size."""

    @abstractmethod
    def chance(self, size: int) -> float:
        """Return the share of right answers of a guess that does not read the problem."""


class SetTask(Task):
    """n items and a query; one of `classes` is the answer.

    Examples:
        >>> from strop.studies.problems import SetTask, find_problem
        >>> task = find_problem("average")
        >>> isinstance(task, SetTask), task.features, task.query_features, task.classes
        (True, 1, 1, 10)
    """

    kind = "set"
    train_sizes = (5, 16)
    test_sizes = SIZES_OF_SETS
    classes: int
    query_features: int = 1

    @property
    @abstractmethod
    def features(self) -> int:
        """Columns of an item."""

    def length(self, size: int) -> int:
        """Items are what a size counts."""
        return size

    def chance(self, size: int) -> float:
        """Every class is as likely."""
        return 1.0 / self.classes


class SequenceTask(Task):
    """Tokens of a small vocabulary, answers included (teacher forced).

    Examples:
        >>> from strop.studies.problems import SequenceTask, find_problem
        >>> task = find_problem("flipflop")
        >>> isinstance(task, SequenceTask), task.vocabulary, task.length(16)
        (True, 5, 32)
    """

    kind = "sequence"
    train_sizes = (4, 16)

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of tokens."""

    @property
    def classes(self) -> int:
        """Any token may be the answer."""
        return self.vocabulary


def draw_orders(count: int, size: int, generator: Generator, first: int | None = None) -> Tensor:
    """Draw `count` random orders of 0 … size − 1, or the beginning of each: [count, first]."""
    draw = torch.randint(2**62, (count, size), generator=generator)  # 62 bits: no two are equal
    return draw.topk(size if first is None else min(first, size), dim=-1).indices


def draw_query(count: int, generator: Generator) -> Tensor:
    """Draw a query [count, 1] ~ U(0, 1) that says nothing."""
    return torch.rand(count, 1, generator=generator)
