"""A suite: which prompts, prose and lengths a model is measured on. Needs no torch until passages are drawn.

Everything comes from the test split, which calibration never sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strop._checks import require, require_distinct
from strop.errors import ArgumentError

if TYPE_CHECKING:
    from strop.edges.edge import Edge
    from strop.tasks.passages import Passage
    from strop.tasks.prompts import Prompts


@dataclass(frozen=True)
class Suite:
    """What to measure. `questions` share a passage, so that 200 prompts are 25 passages of eight questions.

    `held` takes of a user's own prompts only the fifth that calibration keeps for its test.

    Examples:
        >>> suite = Suite(sizes=(4,), phrasings=("room",), prompts=8)
        >>> suite.passages()[0].questions[0]
        ('You will find the turtle in room', ' 4336')
    """

    task: str = "recall"
    sizes: tuple[int, ...] = (4, 16, 32, 64)
    phrasings: tuple[str, ...] = ()
    prompts: int = 200
    questions: int = 8
    lengths: tuple[int, ...] = (256, 1024)
    windows: int = 8
    seed: int = 0
    data: str | None = None
    prose: str | None = None
    held: bool = False

    def __post_init__(self) -> None:
        for name in ("prompts", "questions", "windows"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        for name in ("sizes", "phrasings", "lengths"):
            require_distinct(name, getattr(self, name))

    def passages(self, prompts: Prompts | None = None) -> list[Passage]:
        """Return the prompts: a user's own, or passages of the built-in task in the chosen or all test phrasings."""
        if prompts is not None:
            return prompts.split(self.seed)[2] if self.held else list(prompts.passages)
        return [
            passage
            for size in self.sizes
            for phrasing in self.choose_phrasings()
            for passage in self._group(size, phrasing)
        ]

    def choose_phrasings(self) -> tuple[str, ...]:
        """Return the phrasings asked for, or one that calibration uses and all held-out ones."""
        from strop.tasks.catalogue import find_task

        task = find_task(self.task)
        return self.phrasings or (task.open_phrasings[0], *task.held_out)

    def checksum(self, prompts: Prompts | None = None) -> str:
        """Return a checksum of every prompt and of the prose, which a file's name alone does not settle."""
        from strop.tasks.prose import checksum, read_prose

        return checksum(repr(self.passages(prompts)) + read_prose("test", self.prose))

    def _group(self, size: int, phrasing: str) -> list[Passage]:
        """Exactly `prompts` prompts, or a little more where they do not divide; all phrasings ask the same things."""
        from strop.tasks.catalogue import draw_passages

        one = len(draw_passages(self.task, "test", self.seed, (size,), (phrasing,), 1, self.questions)[0].questions)
        count = -(-self.prompts // one)
        return draw_passages(self.task, "test", self.seed, (size,), (phrasing,), count, self.questions)


FEWEST = 6
"""Passages below which no test over passages reaches 0.05: with five the smallest p is 2/2⁵, or 0.06."""


def find_hopeless(passages: Sequence[Passage]) -> str:
    """Return what to say of prompts that are too few for any group of them to show a difference; nothing if none is."""
    counts = Counter((passage.phrasing, passage.size) for passage in passages)
    few = min(counts.values())
    if few >= FEWEST:
        return ""
    needed = FEWEST * max(len(passage.questions) for passage in passages)
    return (
        f"With {few} passages for a size and phrasing no difference can be significant: {FEWEST} are needed. "
        f"Ask for at least --prompts {needed}."
    )


def plan_test(edge: Edge, prompts: int) -> dict[str, Any]:
    """Return arguments of `evaluate` for a first test of a fresh edge: its largest size and twice that, if there is.

    Phrasings are of both kinds. An edge from text alone is tested on recall; for one from a user's own prompts, `task`
    must be added.
    """
    recipe: Mapping[str, Any] = edge.made["recipe"]
    largest = recipe["sizes"][1]
    found: dict[str, Any] = {
        "sizes": (largest, 2 * largest), "prompts": prompts, "windows": 4, "seed": recipe["seed"],
        "prose": recipe["prose"], "lengths": tuple(recipe["lengths"]),
    }  # fmt: skip
    if recipe["data"] is not None:
        return found
    found["task"] = "recall" if recipe["task"] == "text" else recipe["task"]
    try:
        Suite(**found).passages()
    except ArgumentError:  # the task has no passages of twice the size
        found["sizes"] = (largest,)
    return found
