"""The built-in text tasks by name, and the three splits of each.

A task is one file in builtin/: a subclass of `TextTask` and `task`, one object of it, or `tasks`, several. Calibration,
validation and test draw from seeds that never meet; test passages may also use held-out phrasings.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from torch import Generator

from strop._checks import require_known
from strop.tasks import builtin
from strop.tasks.passages import Passage, TextTask, sample
from strop.tasks.prose import SPLITS, Split


def _find_tasks() -> dict[str, TextTask]:
    modules = (import_module(f"{builtin.__name__}.{found.name}") for found in iter_modules(builtin.__path__))
    found = (one for module in modules for one in getattr(module, "tasks", None) or (module.task,))
    return {task.name: task for task in found}


TASKS: dict[str, TextTask] = _find_tasks()


def find_task(name: str) -> TextTask:
    """Return a built-in task."""
    require_known("task", name, TASKS)
    return TASKS[name]


def generator_of(split: Split, seed: int) -> Generator:
    """Return the generator of a split: the same seed gives other draws in every split."""
    return Generator().manual_seed(3 * seed + SPLITS.index(split))


def draw_passages(
    name: str, split: Split, seed: int, sizes: Sequence[int], phrasings: Sequence[str], count: int, questions: int
) -> list[Passage]:
    """Draw `count` passages for every size and phrasing of a split."""
    task, generator = find_task(name), generator_of(split, seed)
    return [
        passage
        for size in sizes
        for phrasing in phrasings
        for passage in sample(task, count, size, [phrasing], generator, questions)
    ]
