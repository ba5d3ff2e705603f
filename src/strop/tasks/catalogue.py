"""The built-in text tasks by name, and the three splits of each.

Calibration, validation and test draw from seeds that never meet; test passages may also use held-out phrasings.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Generator

from strop._checks import require_known
from strop.tasks.counting import Counting
from strop.tasks.maximum import Maximum
from strop.tasks.passages import Passage, TextTask, sample
from strop.tasks.passkey import Passkey
from strop.tasks.prose import SPLITS, Split
from strop.tasks.recall import Recall
from strop.tasks.variables import Variables

TASKS: dict[str, TextTask] = {task.name: task for task in (Recall(), Maximum(), Passkey(), Variables(), Counting())}


def task_named(name: str) -> TextTask:
    """Return a built-in task."""
    require_known("task", name, TASKS)
    return TASKS[name]


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
