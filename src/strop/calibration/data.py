"""What a calibration is fed: batches, a validation split, guarded tasks and prose, all from a recipe's seed.

    recall, maximum, …   a built-in task: sizes drawn between two bounds, phrasings taken in turn, held-out ones never;
                         to stop by, the task's own phrasings for that where it has some, at sizes that may be larger
    a user's prompts     of which every fifth goes to validation
    text                 no answers at all: the end of texts four times the trusted length (echoes.py)

and, as a guard, passages of other built-in tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import torch
from torch import Generator, Tensor, nn

from strop._checks import require
from strop.calibration.echoes import make_echoes, make_tails
from strop.calibration.objective import Answers, Batch, Group, Leads
from strop.calibration.settings import Recipe
from strop.pretrained.load import count_positions
from strop.tasks.answers import Encoded, Reader
from strop.tasks.catalogue import find_task, generator_of
from strop.tasks.passages import Passage, TextTask, sample
from strop.tasks.prompts import Prompts
from strop.tasks.prose import Split, checksum, cut_windows, read_prose

GUARDED = 4
"""Groups of each guarded task to learn by."""

GUARDED_SIZE = 24
"""Largest size of a guarded passage, whatever the task's: a guard must not cost more than the task."""

TOKENS = 200
"""Length of a guarded group, but for a single passage that is longer."""

LEAST = 3
"""Windows of prose of each length, at least."""

LONG = 4
"""How many times the trusted length a long text has."""


@dataclass(frozen=True)
class Data:
    """What a recipe draws; `prompts` are the user's own, where the recipe names some."""

    recipe: Recipe
    prompts: Prompts | None = None

    def batches(self, model: nn.Module, reader: Reader, steps: int) -> list[Batch]:
        """Return a batch for every step: `passages` of a built-in task, one of a user's own, or one long text."""
        if self.recipe.task == "text":
            return self._cut_texts(model, reader, "train", steps)
        each = self.recipe.passages if self.prompts is None else 1
        read = [reader.encode(passage) for passage in self._learned(steps * each)]
        batches: list[Batch] = [Answers(read[i : i + each]) for i in range(0, len(read), each)]
        return self._mix_echoes(batches, model, reader) if self.recipe.echoes else batches

    def validation(self, model: nn.Module, reader: Reader, texts: int = 4) -> list[Batch]:
        """Return what to stop by: `questions` of each phrasing at the judged sizes, a fifth of a user's prompts, or
        so many texts.
        """
        recipe = self.recipe
        if recipe.task == "text":
            return self._cut_texts(model, reader, "validation", texts)
        if self.prompts is not None:
            return [Answers([reader.encode(passage)]) for passage in self.prompts.split(recipe.seed)[1]]
        task, draw = find_task(recipe.task), generator_of("validation", recipe.seed)
        phrasings, sizes = task.stopping or self._phrasings(), recipe.judged or recipe.sizes[1:]
        groups = [self._draw_group(task, size, phrasing, draw) for size in sizes for phrasing in phrasings]
        return [Answers([reader.encode(passage) for passage in group]) for group in groups]

    def guard(self, reader: Reader) -> tuple[list[list[Group]], list[Group]]:
        """Return what to guard in descent, GUARDED groups of each task, and in validation, one of each."""
        tasks = [find_task(name) for name in self.recipe.guard]
        learn, judge = (generator_of(split, self.recipe.seed) for split in ("train", "validation"))
        low, high = (min(size, GUARDED_SIZE) for size in self.recipe.sizes)
        learned: list[list[Group]] = [[] for _ in tasks]
        for i in range(GUARDED):
            for groups, task in zip(learned, tasks, strict=True):
                size, phrasings = int(torch.randint(low, high + 1, (), generator=learn)), task.open_phrasings
                groups.append(self._draw_guard(reader, task, size, phrasings[i % len(phrasings)], learn))
        validated: list[Group] = [
            [
                batch
                for phrasing in task.open_phrasings
                for batch in self._draw_guard(reader, task, high, phrasing, judge)
            ]
            for task in tasks
        ]
        return learned, validated

    def prose(self, reader: Reader, split: Split) -> list[Tensor]:
        """Return windows of prose [1, n], the lengths mixed evenly: `windows` of the shortest, a third to stop by.

        Of other lengths there are fewer, with about as many tokens in all, but at least LEAST.
        """
        text, shortest = read_prose(split, self.recipe.prose), min(self.recipe.lengths)
        most = self.recipe.windows if split == "train" else -(-self.recipe.windows // 3)
        placed: list[tuple[float, Tensor]] = []
        for n in self.recipe.lengths:
            count = max(min(most, LEAST), most * shortest // n)
            windows = cut_windows(reader, text, n, count).split(1)
            placed += [((i + 0.5) / count, window) for i, window in enumerate(windows)]
        return [window for _, window in sorted(placed, key=lambda one: one[0])]

    def texts(self, reader: Reader, count: int = 4) -> dict[int, Tensor]:
        """Return texts of the trusted length, twice it and four times it, for `hold_entropy`."""
        text, trusted = read_prose("train", self.recipe.prose), self.recipe.trusted
        return {n: cut_windows(reader, text, n, count) for n in (trusted, 2 * trusted, LONG * trusted)}

    def checksum(self, steps: int) -> str:
        """Return a checksum of all passages and prose, which a file's name alone does not settle."""
        texts = read_prose("train", self.recipe.prose) + read_prose("validation", self.recipe.prose)
        if self.recipe.task == "text":
            return checksum(texts)
        passages = (
            self._learned(steps * self.recipe.passages)
            if self.prompts is None
            else self.prompts.split(self.recipe.seed)[:2]
        )
        return checksum(repr(passages) + texts)

    def _cut_texts(self, model: nn.Module, reader: Reader, split: Split, count: int) -> list[Batch]:
        recipe = self.recipe
        long = cut_windows(reader, read_prose(split, recipe.prose), LONG * recipe.trusted, count).split(1)
        first, draw = len(reader.before), generator_of(split, recipe.seed)
        tails = make_tails(model, long[::2], recipe.trusted, first)
        echoes = make_echoes(model, long[1::2], recipe.trusted, draw, first)
        return [tail for pair in zip_longest(tails, echoes) for tail in pair if tail is not None]

    def _mix_echoes(self, batches: list[Batch], model: nn.Module, reader: Reader) -> list[Batch]:
        """The batches with an echo in the place of so many in a hundred of them, evenly spread."""
        recipe, share = self.recipe, self.recipe.echoes
        places = [i for i in range(len(batches)) if (i + 1) * share // 100 > i * share // 100]
        length = min(LONG * recipe.trusted, count_positions(model) or LONG * recipe.trusted)
        if not places or length < 2 * recipe.trusted:  # a model of few positions has no room for an echo
            return batches
        text = read_prose("train", recipe.prose)
        windows = cut_windows(reader, text, length, len(places)).split(1)
        draw = generator_of("train", recipe.seed)
        echoes = make_echoes(model, windows, recipe.trusted, draw, len(reader.before))
        found = dict(zip(places, echoes, strict=True))
        return [found.get(i, batch) for i, batch in enumerate(batches)]

    def _phrasings(self) -> tuple[str, ...]:
        task = find_task(self.recipe.task)
        held = [phrasing for phrasing in self.recipe.phrasings if phrasing in (*task.held_out, *task.stopping)]
        remedy = f"Calibrate on {', '.join(task.open_phrasings)}"
        require(not held, "phrasings must not be held out for testing or for stopping", ", ".join(held), remedy)
        return self.recipe.phrasings or task.open_phrasings

    def _learned(self, count: int) -> list[Passage]:
        """The passages to learn by: a user's own, or `count` of the built-in task."""
        recipe = self.recipe
        if self.prompts is not None:
            return self.prompts.split(recipe.seed)[0]
        task, draw, phrasings = find_task(recipe.task), generator_of("train", recipe.seed), self._phrasings()
        low, high = recipe.sizes
        sizes = torch.randint(low, high + 1, (count,), generator=draw).tolist()
        return [
            sample(task, 1, size, [phrasings[i % len(phrasings)]], draw, recipe.questions)[0]
            for i, size in enumerate(sizes)
        ]

    def _draw_group(self, task: TextTask, size: int, phrasing: str, draw: Generator) -> list[Passage]:
        """Passages with `questions` questions in all: one, or several where a passage has fewer to ask."""
        questions = self.recipe.questions
        group = sample(task, 1, size, [phrasing], draw, questions)
        more = -(-questions // len(group[0].questions)) - 1
        return group + (sample(task, more, size, [phrasing], draw, questions) if more else [])

    def _draw_guard(self, reader: Reader, task: TextTask, size: int, phrasing: str, draw: Generator) -> list[Batch]:
        """As many passages as `TOKENS` allow, at least one and at most `questions`."""
        made: list[Encoded] = []
        while not made or (len(made) < self.recipe.questions and sum(one.context.numel() for one in made) < TOKENS):
            made.append(reader.encode(sample(task, 1, size, [phrasing], draw, self.recipe.questions)[0]))
        return [Leads([one]) if self.recipe.guard_leads else Answers([one]) for one in made]
