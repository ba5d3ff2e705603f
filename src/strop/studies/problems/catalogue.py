"""Every task by its name; docs/tasks.md has the table. A new task is one file and one line below."""

from __future__ import annotations

import inspect

from strop._checks import require_known
from strop.studies.problems.average import Average
from strop.studies.problems.count import Count
from strop.studies.problems.flipflop import FlipFlop
from strop.studies.problems.largest import CloseItems, LargestItem
from strop.studies.problems.needle import Needle
from strop.studies.problems.recall import AssociativeRecall
from strop.studies.problems.rewrite import Copy, Reverse, Sort
from strop.studies.problems.task import Task
from strop.studies.problems.top_k import TopKClass

ALL_TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        LargestItem(), CloseItems(), TopKClass(), Needle(), Average(), Count(),
        AssociativeRecall(), FlipFlop(), Copy(), Reverse(), Sort(),
    )
}  # fmt: skip


def find_problem(name: str, **settings: object) -> Task:
    """Return a task by its name.

    Args:
        name: a key of `ALL_TASKS`, such as "max_retrieval", "needle" or "recall".
        settings: fields of the task's class that shall differ from their defaults.

    Raises:
        ValueError: the name or a setting is not known; the message has the nearest one.

    Examples:
        >>> from strop.studies.problems import find_problem
        >>> find_problem("needle").classes
        10
        >>> find_problem("recall", keys=64)
        AssociativeRecall(keys=64, values=16, queries=8)
    """
    require_known("task", name, ALL_TASKS)
    if not settings:
        return ALL_TASKS[name]
    kind = type(ALL_TASKS[name])
    for setting in settings:
        require_known(f"setting of {name}", setting, inspect.signature(kind).parameters)
    return kind(**settings)
