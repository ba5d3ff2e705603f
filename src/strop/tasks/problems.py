"""The arena's tasks by name; docs/tasks.md has the table. `strop.tasks.task` says what a task is."""

from __future__ import annotations

from strop._checks import require_known
from strop.tasks.sequences_flipflop import FlipFlop
from strop.tasks.sequences_recall import AssociativeRecall
from strop.tasks.sequences_rewrite import Copy, Reverse, Sort
from strop.tasks.sets_average import Average
from strop.tasks.sets_count import Count
from strop.tasks.sets_max import CloseItems, LargestItem
from strop.tasks.sets_needle import Needle
from strop.tasks.sets_top_k import TopKClass
from strop.tasks.task import IGNORE, Problems, SequenceTask, SetTask, Task

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        LargestItem(), CloseItems(), TopKClass(), Needle(), Average(), Count(),
        AssociativeRecall(), FlipFlop(), Copy(), Reverse(), Sort(),
    )
}  # fmt: skip


def task_by_name(name: str, **settings: object) -> Task:
    """Return a task, with settings of its own where given: task_by_name("recall", keys=64)."""
    require_known("task", name, TASKS)
    if not settings:
        return TASKS[name]
    kind = type(TASKS[name])
    for setting in settings:
        require_known(f"setting of {name}", setting, kind.__dataclass_fields__)  # type: ignore[attr-defined]
    return kind(**settings)


__all__ = ["IGNORE", "TASKS", "Problems", "SequenceTask", "SetTask", "Task", "task_by_name"]
