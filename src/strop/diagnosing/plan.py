"""What a diagnosis is asked to do, and whether it makes sense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strop._checks import require, require_known

if TYPE_CHECKING:
    from strop.tasks.passages import Passage

DIAGNOSED = ("recall", "maximum", "passkey", "variables", "counting")
"""The built-in tasks that are asked where nothing else is said."""

LEARNED = 8
"""Questions from which a step of temperatures is made."""


@dataclass(frozen=True)
class Questioning:
    """What a diagnosis is asked to do."""

    prompts: int = 24
    questions: int = 8
    longest: int = 2048
    more: int = 1
    phrasings: tuple[str, ...] = ()
    seed: int = 0
    trial: bool = True


def check_plan(plan: Questioning, tasks: Sequence[str]) -> None:
    """Raise on settings that make no sense."""
    from strop.tasks.catalogue import TASKS

    for field in ("prompts", "questions", "longest"):
        require(getattr(plan, field) >= 1, f"{field} must be at least 1", getattr(plan, field))
    require(plan.more >= 0, "more must be at least 0", plan.more)
    known = [name for task in tasks if task in TASKS for name in TASKS[task].phrasings]
    for phrasing in plan.phrasings:
        require_known("phrasing", phrasing, known)


def check_evidence(passage: Passage, line: str) -> None:
    """Raise unless every question of a passage has its evidence; `line` is what to call it."""
    given = len(passage.evidence) == len(passage.questions)
    require(given, f"{line} must say what its evidence is", "none", 'Add "evidence": the words that hold the answer')
