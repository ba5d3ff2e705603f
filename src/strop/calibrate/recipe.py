"""What a calibration is fed: prompts, prose and the two splits, all from a seed.

recall, maximum, …   a built-in task: sizes drawn between two bounds, phrasings taken in turn, held-out ones never
a JSONL file         a user's prompts and answers; every fifth goes to validation
text                 no answers at all: the end of texts four times the trusted length (label_free.py)

and, as a guard, passages of other built-in tasks (guard.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from strop._checks import require
from strop.calibrate.guard import Group
from strop.calibrate.label_free import echoes, tails
from strop.calibrate.objective import Answers, Batch
from strop.tasks.answers import Encoded, Reader
from strop.tasks.catalogue import TASKS, generator_of, task_named
from strop.tasks.passages import Passage, TextTask, read_jsonl, sample, seen
from strop.tasks.prose import Split, checksum, prose, windows

GUARDED = 4
"""Groups of each guarded task to learn by."""

TOKENS = 300
"""Length of a guarded group: a guard must not cost more than the task."""

LONG = 4
"""How many times the trusted length a long text has."""


@dataclass(frozen=True)
class Recipe:
    """Which data; sizes are inclusive bounds; `windows` of prose for each of `lengths`.

    `guard` names tasks on which no harm is to be done; None is all built-in ones but the task itself.
    """

    task: str = "recall"
    sizes: tuple[int, int] = (8, 24)
    phrasings: tuple[str, ...] = ()
    questions: int = 8
    seed: int = 0
    data: str | None = None
    prose: str | None = None
    lengths: tuple[int, ...] = (256, 1024)
    windows: int = 4
    trusted: int = 256
    guard: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        low, high = self.sizes
        require(1 <= low <= high, "sizes must be two bounds, the smaller first", self.sizes)
        require(self.questions >= 1 and self.windows >= 1, "questions and windows must be at least 1", 0)

    def batches(self, model: nn.Module, reader: Reader, steps: int) -> list[Batch]:
        """Return a batch for every step: one passage, or one long text, each."""
        if self.task == "text":
            return self._tails(model, reader, "train", steps)
        passages = self._drawn("train", steps, self._phrasings()) if self.data is None else self._own()[0]
        return [Answers([reader.encode(passage)]) for passage in passages]

    def validation(self, model: nn.Module, reader: Reader) -> list[Batch]:
        """Return what to stop by: `questions` of each phrasing at the largest size, or a fifth of a user's prompts."""
        if self.task == "text":
            return self._tails(model, reader, "validation", 4)
        if self.data is not None:
            return [Answers([reader.encode(passage)]) for passage in self._own()[1]]
        task, draw = task_named(self.task), generator_of("validation", self.seed)
        groups = [self._group(task, self.sizes[1], phrasing, draw) for phrasing in self._phrasings()]
        return [Answers([reader.encode(passage) for passage in group]) for group in groups]

    def guarded(self, reader: Reader) -> tuple[list[Group], list[Group]]:
        """Return what to guard in descent, the tasks in turn, and in validation, a group for each task."""
        names = [name for name in TASKS if name != self.task] if self.guard is None else list(self.guard)
        tasks = [task_named(name) for name in names]
        learn, judge = generator_of("train", self.seed), generator_of("validation", self.seed)
        low, high = self.sizes
        learned: list[Group] = []
        for i, task in ((i, task) for i in range(GUARDED) for task in tasks):
            size = int(torch.randint(low, high + 1, (), generator=learn))
            learned.append(self._some(reader, task, size, seen(task)[i % len(seen(task))], learn))
        validated: list[Group] = [
            [batch for phrasing in seen(task) for batch in self._some(reader, task, high, phrasing, judge)]
            for task in tasks
        ]
        return learned, validated

    def prose_windows(self, reader: Reader, split: Split) -> list[Tensor]:
        """Return `windows` of prose [1, n] of every length, the lengths taken in turn."""
        text = prose(split, self.prose)
        by_length = [windows(reader, text, n, self.windows).split(1) for n in self.lengths]
        return [window for together in zip(*by_length, strict=True) for window in together]

    def texts(self, reader: Reader, count: int = 4) -> dict[int, Tensor]:
        """Return texts of the trusted length, twice it and four times it, for `hold_entropy`."""
        text = prose("train", self.prose)
        return {n: windows(reader, text, n, count) for n in (self.trusted, 2 * self.trusted, LONG * self.trusted)}

    def checksum(self, steps: int) -> str:
        """Return a checksum of all passages and prose, which a file's name alone does not settle."""
        if self.task == "text":
            return checksum(prose("train", self.prose))
        passages = self._own() if self.data is not None else self._drawn("train", steps, self._phrasings())
        return checksum(repr(passages) + prose("train", self.prose))

    def _tails(self, model: nn.Module, reader: Reader, split: Split, count: int) -> list[Batch]:
        long = windows(reader, prose(split, self.prose), LONG * self.trusted, count).split(1)
        first, draw = len(reader.before), generator_of(split, self.seed)
        kinds = tails(model, long[::2], self.trusted, first), echoes(model, long[1::2], self.trusted, draw, first)
        return [tail for pair in zip_longest(*kinds) for tail in pair if tail is not None]

    def _phrasings(self) -> tuple[str, ...]:
        task = task_named(self.task)
        held = [phrasing for phrasing in self.phrasings if phrasing in task.held_out]
        remedy = f"Calibrate on {', '.join(seen(task))}"
        require(not held, "phrasings must not be held out for testing", ", ".join(held), remedy)
        return self.phrasings or seen(task)

    def _drawn(self, split: Split, count: int, phrasings: Sequence[str]) -> list[Passage]:
        task, draw = task_named(self.task), generator_of(split, self.seed)
        low, high = self.sizes
        sizes = torch.randint(low, high + 1, (count,), generator=draw).tolist()
        return [
            sample(task, 1, size, [phrasings[i % len(phrasings)]], draw, self.questions)[0]
            for i, size in enumerate(sizes)
        ]

    def _group(self, task: TextTask, size: int, phrasing: str, draw: Generator) -> list[Passage]:
        """Passages with `questions` questions in all: one, or several where a passage has fewer to ask."""
        group = sample(task, 1, size, [phrasing], draw, self.questions)
        more = -(-self.questions // len(group[0].questions)) - 1
        return group + (sample(task, more, size, [phrasing], draw, self.questions) if more else [])

    def _some(self, reader: Reader, task: TextTask, size: int, phrasing: str, draw: Generator) -> list[Batch]:
        """As many passages as `TOKENS` allow, at least one and at most `questions`."""
        made: list[Encoded] = []
        while not made or (len(made) < self.questions and sum(one.context.numel() for one in made) < TOKENS):
            made.append(reader.encode(sample(task, 1, size, [phrasing], draw, self.questions)[0]))
        return [Answers([one]) for one in made]

    def _own(self) -> tuple[list[Passage], list[Passage]]:
        assert self.data is not None
        passages = read_jsonl(Path(self.data))
        require(len(passages) >= 5, f"{self.data} must hold at least 5 prompts", len(passages))
        order = torch.randperm(len(passages), generator=generator_of("train", self.seed)).tolist()
        held = len(passages) // 5
        return [passages[i] for i in order[held:]], [passages[i] for i in order[:held]]
