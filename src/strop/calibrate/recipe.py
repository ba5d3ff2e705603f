"""What a calibration is fed: prompts, prose and the two splits, all from a seed.

recall, maximum, …   a built-in task: sizes drawn between two bounds, phrasings taken in turn, held-out ones never
a JSONL file         a user's prompts and answers; every fifth goes to validation
text                 no answers at all: the end of texts four times the trusted length (label_free.py)

and, as a guard, passages of other built-in tasks (guard.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product, zip_longest

import torch
from torch import Generator, Tensor, nn

from strop._checks import require, require_distinct
from strop.calibrate.guard import Group
from strop.calibrate.label_free import echoes, tails
from strop.calibrate.objective import Answers, Batch, Leads
from strop.tasks.answers import Encoded, Reader
from strop.tasks.catalogue import generator_of, own, task_named
from strop.tasks.passages import Passage, TextTask, sample, seen
from strop.tasks.prose import Split, checksum, prose, windows

GUARDED = 4
"""Groups of each guarded task to learn by."""

GUARDED_SIZE = 24
"""Largest size of a guarded passage, whatever the task's: a guard must not cost more than the task."""

TOKENS = 300
"""Length of a guarded group, but for a single passage that is longer."""

LONG = 4
"""How many times the trusted length a long text has."""


@dataclass(frozen=True)
class Recipe:
    """Which data; sizes are inclusive bounds; `windows` of prose for each of `lengths`.

    `guard` names other tasks, on which no harm is to be done; `guard_leads` guards what right answers lead by.
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
    guard: tuple[str, ...] = ()
    guard_leads: bool = False

    def __post_init__(self) -> None:
        low, high = self.sizes
        require(1 <= low <= high, "sizes must be two bounds, the smaller first", self.sizes)
        counts = (self.questions, self.windows)
        require(min(counts) >= 1, "questions and windows must be at least 1", counts)
        require_distinct("lengths", self.lengths)
        require(self.task not in self.guard, "guard must name other tasks than the one to learn", self.task)

    def batches(self, model: nn.Module, reader: Reader, steps: int) -> list[Batch]:
        """Return a batch for every step: one passage, or one long text, each."""
        if self.task == "text":
            return self._tails(model, reader, "train", steps)
        passages = self._drawn(steps) if self.data is None else own(self.data, self.seed)[0]
        return [Answers([reader.encode(passage)]) for passage in passages]

    def validation(self, model: nn.Module, reader: Reader) -> list[Batch]:
        """Return what to stop by: `questions` of each phrasing at the largest size, or a fifth of a user's prompts."""
        if self.task == "text":
            return self._tails(model, reader, "validation", 4)
        if self.data is not None:
            return [Answers([reader.encode(passage)]) for passage in own(self.data, self.seed)[1]]
        task, draw = task_named(self.task), generator_of("validation", self.seed)
        groups = [self._group(task, self.sizes[1], phrasing, draw) for phrasing in self._phrasings()]
        return [Answers([reader.encode(passage) for passage in group]) for group in groups]

    def guarded(self, reader: Reader) -> tuple[list[Group], list[Group]]:
        """Return what to guard in descent, the tasks in turn, and in validation, a group for each task."""
        tasks = [task_named(name) for name in self.guard]
        learn, judge = generator_of("train", self.seed), generator_of("validation", self.seed)
        low, high = (min(size, GUARDED_SIZE) for size in self.sizes)
        learned: list[Group] = []
        for i, task in product(range(GUARDED), tasks):
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
        texts = prose("train", self.prose) + prose("validation", self.prose)
        if self.task == "text":
            return checksum(texts)
        passages = own(self.data, self.seed)[:2] if self.data is not None else self._drawn(steps)
        return checksum(repr(passages) + texts)

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

    def _drawn(self, count: int) -> list[Passage]:
        task, draw, phrasings = task_named(self.task), generator_of("train", self.seed), self._phrasings()
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
        return [Leads([one]) if self.guard_leads else Answers([one]) for one in made]
