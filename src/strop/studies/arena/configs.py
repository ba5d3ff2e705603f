"""What the arena's runs depend on. Plain values: their content addresses name the runs' folders."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from strop._checks import require, require_number

if TYPE_CHECKING:
    from strop.studies.problems import Task

ARENA_FOLDER = "arena"
"""The folder of the arena under a folder of runs."""


@dataclass(frozen=True)
class Budget:
    """What one training may use; the same for every entrant.

    Args:
        steps: of the optimiser.
        batch: problems a step.
        warmup: steps over which the learning rate rises.
        weight_decay: AdamW's.
        clip: the largest norm of a gradient.

    Examples:
        >>> from strop.studies.arena import Budget
        >>> budget = Budget(steps=100, warmup=10)
        >>> [round(budget.rate(2.0, step), 3) for step in (0, 50, 99)]
        [0.2, 1.0, 0.0]
    """

    steps: int = 2_000
    batch: int = 64
    warmup: int = 100
    weight_decay: float = 1e-3
    clip: float = 1.0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "warmup"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name), "Use the default")
        require(self.weight_decay >= 0, "weight_decay must be at least 0", self.weight_decay)
        require_number("clip", self.clip, above=0)

    def rate(self, lr: float, step: int) -> float:
        """The learning rate of a step."""
        return lr * min(1.0, (step + 1) / self.warmup) * 0.5 * (1.0 + math.cos(math.pi * step / self.steps))


@dataclass(frozen=True)
class Shape:
    """The model: a retriever of this width for sets, a decoder for sequences.

    Args:
        width: numbers that stand for an item or a token.
        heads: attention heads of a decoder.
        layers: of a decoder.
        positions: how a decoder knows places: "rope", "alibi" or "nope".
        smear: let each key of a decoder hold a share of the key before it.
        norm_after: put a norm after attention (arXiv 2504.02827).

    Examples:
        >>> from strop.studies.arena import Shape
        >>> Shape(width=32).of("set") == Shape(width=32, heads=2).of("set")
        True
    """

    width: int = 64
    heads: int = 4
    layers: int = 2
    positions: str = "rope"
    smear: bool = True
    norm_after: bool = False

    def of(self, kind: str) -> Shape:
        """The shape without what this kind of task does not use, so that its runs do not depend on it."""
        return self if kind == "sequence" else replace(self, heads=1, layers=1, positions="none", smear=False)


@dataclass(frozen=True)
class Training:
    """Everything that the weights of one model depend on."""

    task: str
    normaliser: str
    lr: float
    seed: int
    budget: Budget = field(default_factory=Budget)
    shape: Shape = field(default_factory=Shape)

    @property
    def title(self) -> str:
        """What this run is, for people."""
        return f"{self.task}, {self.normaliser}, seed {self.seed}, rate {self.lr:g}"


@dataclass(frozen=True)
class Trial:
    """Everything that the figures of one model depend on: `items` bounds problems · length at each size."""

    training: Training
    normaliser: str
    sizes: tuple[int, ...]
    problems: int = 512
    items: int = 2**20

    @property
    def title(self) -> str:
        """What this run is, for people."""
        return f"{self.training.title}, tested with {self.normaliser}"

    def count(self, task: Task, size: int) -> int:
        """Problems asked at a size."""
        return max(16, min(self.problems, self.items // task.length(size)))
