"""The built-in text tasks by name, and the three splits of each.

Calibration, validation and test draw from seeds that never meet; test passages may also use held-out phrasings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Generator

from strop._checks import require, require_known
from strop.tasks.counting import Counting
from strop.tasks.maximum import Maximum
from strop.tasks.passages import Passage, TextTask, read_jsonl, sample
from strop.tasks.passkey import Passkey
from strop.tasks.prose import SPLITS, Split, checksum
from strop.tasks.recall import Recall
from strop.tasks.variables import Variables

TASKS: dict[str, TextTask] = {task.name: task for task in (Recall(), Maximum(), Passkey(), Variables(), Counting())}


def task_named(name: str) -> TextTask:
    """Return a built-in task."""
    require_known("task", name, TASKS)
    return TASKS[name]


def others(name: str) -> tuple[str, ...]:
    """Return the names of all built-in tasks but one."""
    return tuple(task for task in TASKS if task != name)


def generator_of(split: Split, seed: int) -> Generator:
    """Return the generator of a split: the same seed gives other draws in every split."""
    return Generator().manual_seed(3 * seed + SPLITS.index(split))


def drawn(
    name: str, split: Split, seed: int, sizes: Sequence[int], phrasings: Sequence[str], count: int, questions: int
) -> list[Passage]:
    """Draw `count` passages for every size and phrasing of a split."""
    task, generator = task_named(name), generator_of(split, seed)
    return [
        passage
        for size in sizes
        for phrasing in phrasings
        for passage in sample(task, count, size, [phrasing], generator, questions)
    ]


def own_checksum(path: str) -> str:
    """Return a checksum of a user's prompts, whatever their file is called."""
    return checksum(repr(read_jsonl(Path(path))))


def own(path: str, seed: int) -> tuple[list[Passage], list[Passage], list[Passage]]:
    """Return a user's prompts in three parts: to calibrate on, a fifth to stop by and a fifth to test on."""
    passages = read_jsonl(Path(path))
    require(len(passages) >= 5, f"{path} must hold at least 5 prompts", len(passages))
    order = torch.randperm(len(passages), generator=generator_of("train", seed)).tolist()
    fifth = len(passages) // 5
    cuts = order[2 * fifth :], order[:fifth], order[fifth : 2 * fifth]
    learned, validated, tested = ([passages[i] for i in cut] for cut in cuts)
    return learned, validated, tested
