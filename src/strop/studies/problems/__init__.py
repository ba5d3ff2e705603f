"""Seeded problems of any size, each with a solver that is always right.

task.py           what a task is: `Task`, its two kinds, and a batch of `Problems`
catalogue.py      every task by its name: `find_problem`
max_retrieval.py  the paper's task in the compact form that the retrieval study trains on
streams.py        generators that are named: `stream`

Sets ask for one class: largest.py, top_k.py, needle.py; average.py and count.py are controls, where every item matters.
Sequences ask for tokens: recall.py, flipflop.py, rewrite.py. docs/tasks.md has the table.

Randomness arrives as a `torch.Generator`: the same seed gives the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.studies.problems.catalogue import ALL_TASKS as ALL_TASKS
    from strop.studies.problems.catalogue import find_problem as find_problem
    from strop.studies.problems.max_retrieval import MaxRetrieval as MaxRetrieval
    from strop.studies.problems.streams import stream as stream
    from strop.studies.problems.task import IGNORE as IGNORE
    from strop.studies.problems.task import Problems as Problems
    from strop.studies.problems.task import SequenceTask as SequenceTask
    from strop.studies.problems.task import SetTask as SetTask
    from strop.studies.problems.task import Task as Task

_HOMES = {
    "ALL_TASKS": "catalogue",
    "IGNORE": "task",
    "MaxRetrieval": "max_retrieval",
    "Problems": "task",
    "SequenceTask": "task",
    "SetTask": "task",
    "Task": "task",
    "find_problem": "catalogue",
    "stream": "streams",
}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
