"""What a calibration is told: how to descend (`Settings`) and on which data (`Recipe`). Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from strop._checks import require, require_distinct, require_number
from strop.edges.forms import read_form

GUARD = ("recall", "maximum", "passkey", "variables", "counting", "chains")
"""The tasks on which a calibration does no harm unless told otherwise, the one that it learns apart."""


@dataclass(frozen=True)
class Settings:
    """How to calibrate; `budget` is the drift allowed, in nats a token of prose; `rate` is of its radius a step.

    `form` names what is learned (strop/edges/forms.py); `rank` is that of the form query.
    `harm` is what guarded answers may lose, in nats a token.
    `half` multiplies by the frozen weights in bfloat16 (half_products.py).
    `recompute` runs layers again in the backward pass instead of remembering them: less memory, more time.

    Examples:
        >>> Settings(steps=10).budget
        0.01
    """

    form: str = "query"
    outputs: bool = True
    steps: int = 100
    rate: float = 0.25
    budget: float = 0.010
    harm: float = 0.02
    sparsity: float = 0.0
    every: int = 100
    patience: int = 3
    recompute: bool = False
    rank: int = 8
    half: bool = False

    def __post_init__(self) -> None:
        read_form(self.form)
        require(self.rank >= 1, "rank must be at least 1", self.rank)
        require(self.form != "none" or self.outputs, "form must have numbers to learn", self.form)
        counts = (self.steps, self.every, self.patience)
        require(min(counts) >= 1, "steps, every, patience must be ≥ 1", counts)
        for name in ("rate", "budget", "harm"):
            require_number(name, getattr(self, name), above=0)
        require(self.sparsity >= 0, "sparsity must be at least 0", self.sparsity)


@dataclass(frozen=True)
class Recipe:
    """Which data; `sizes` are inclusive bounds; `windows` of prose of the shortest of `lengths`, of longer ones fewer.

    A step learns by `passages` of a built-in task, each with up to `questions` questions.
    `task` is a built-in one, `text` (no answers) or `jsonl` (a user's own prompts, called `data`). `guard` names other
    tasks, on which no harm is to be done; `guard_leads` guards what right answers lead by. `judged` are the sizes to
    stop by (none: the largest), `echoes` how many steps in a hundred learn from an echo of prose instead (echoes.py).

    Examples:
        >>> Recipe(task="passkey", sizes=(8, 40)).lengths
        (256, 1024)
    """

    task: str = "lookup"
    sizes: tuple[int, int] = (8, 24)
    phrasings: tuple[str, ...] = ()
    questions: int = 8
    passages: int = 2
    seed: int = 0
    data: str | None = None
    prose: str | None = None
    lengths: tuple[int, ...] = (256, 1024)
    windows: int = 24
    trusted: int = 256
    guard: tuple[str, ...] = ()
    guard_leads: bool = True
    judged: tuple[int, ...] = ()
    echoes: int = 6

    def __post_init__(self) -> None:
        require(len(self.sizes) == 2, "sizes must be the smallest and the largest", self.sizes, "For example 8,24")
        low, high = self.sizes
        require(1 <= low <= high, "sizes must be two bounds, the smaller first", self.sizes)
        counts = (self.questions, self.passages, self.windows)
        require(min(counts) >= 1, "questions, passages and windows must be at least 1", counts)
        require_distinct("lengths", self.lengths)
        require_distinct("judged", self.judged)
        require(min(self.judged, default=1) >= 1, "judged must be sizes of at least 1", self.judged)
        require(0 <= self.echoes <= 100, "echoes must be a share of 0 to 100 steps in a hundred", self.echoes)
        require(self.task not in self.guard, "guard must name other tasks than the one to learn", self.task)
