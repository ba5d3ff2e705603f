"""Two solved examples before a passage, in the same wording: what a user of a base model would try first."""

from __future__ import annotations

from dataclasses import replace

from strop.tasks.catalogue import find_task, generator_of
from strop.tasks.passages import Passage, sample

EXAMPLES, SIZE = 2, 4
SEED = 7_919
"""Examples come from a stream of their own."""


def add_shots(task: str, passages: list[Passage]) -> list[Passage]:
    """Return the passages of a task with two solved ones of four things before each."""
    found, draw, made = find_task(task), generator_of("test", SEED), []
    for passage in passages:
        shown = sample(found, EXAMPLES, SIZE, [passage.phrasing], draw, 1)
        solved = "".join(f"{one.context}{''.join(one.questions[0])}\n\n" for one in shown)
        made.append(replace(passage, context=solved + passage.context, evidence=()))
    return made
