"""What is measured of every rival. Nothing here chooses anything: wordings, nouns and sizes are of the test split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from strop._checks import require, require_distinct
from strop.calibration.settings import Recipe
from strop.evaluation.judging.bench import Bench

WORDINGS = ("ticket", "account", "box")
"""Held-out wordings of look-up, whose nouns no calibration sees."""


@dataclass(frozen=True)
class RivalBoard:
    """Cells, and what all that learn are given.

    `sizes` are pairs of look-up with similar keys; `prompts` are of each wording, and `questions` share a passage: 108
    prompts in twelve passages, the fewest that a test over passages can tell apart after Holm's correction.
    `counting` is the size of the control. `tokens` and `documents` are RULER's; no tokens: RULER is left out.
    `steps` of training on `pairs` pairs, for edges and adapters alike; adapters choose among `rates` on validation.

    Examples:
        >>> [str(cell) for cell in RivalBoard(sizes=(16,), tokens=()).cells()]
        ['look-up 16', 'counting 16', 'prose 256', 'prose 1024', 'cost']
    """

    sizes: tuple[int, ...] = (16, 48, 96)
    prompts: int = 36
    questions: int = 9
    counting: int = 16
    prose: tuple[int, ...] = (256, 1024)
    windows: int = 8
    tokens: tuple[int, ...] = (1024,)
    documents: int = 50
    pairs: tuple[int, int] = (8, 24)
    judged: tuple[int, ...] = (24, 96)
    steps: int = 100
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("sizes", "prose", "tokens", "rates", "judged"):
            require_distinct(name, getattr(self, name))
        for name in ("prompts", "questions", "windows", "documents", "steps"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        require(len(self.rates) > 0, "rates must hold at least one learning rate", "none")

    def cells(self) -> list[BoardCell]:
        """Return the cells but for RULER's, which lm-evaluation-harness measures."""
        look_ups = [BoardCell("look-up", n) for n in self.sizes]
        return [*look_ups, BoardCell("counting", self.counting), *(BoardCell("prose", n) for n in self.prose), COST]

    def bench(self) -> Bench | None:
        """Return RULER at the board's lengths, if there are any."""
        return Bench.of("ruler", self.tokens, self.documents, self.seed) if self.tokens else None

    def measured(self) -> dict[str, Any]:
        """Return what a measured cell depends on."""
        return {name: getattr(self, name) for name in ("prompts", "questions", "windows", "seed")}

    def learned(self) -> dict[str, Any]:
        """Return what all that learn depend on, and a checksum of the passages that this makes."""
        from strop.calibration.data import Data

        recipe = Recipe("lookup", self.pairs, seed=self.seed, judged=self.judged)
        named = {name: getattr(self, name) for name in ("pairs", "judged", "steps", "seed")}
        return named | {"data": Data(recipe).checksum(self.steps)}


@dataclass(frozen=True)
class BoardCell:
    """One thing that is measured, at one size."""

    kind: str
    size: int | None = None

    def __str__(self) -> str:
        return self.kind if self.size is None else f"{self.kind} {self.size}"


COST = BoardCell("cost")
