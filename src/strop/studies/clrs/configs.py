"""What the runs of the CLRS-Text study depend on. Plain values: their content addresses name the runs' folders."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from strop._checks import require, require_known, require_number
from strop.records import LATER

CLRS_FOLDER = "clrs-text"
"""The folder of the study under a folder of runs."""
PRODUCTS = ("bfloat16", "float32")
OPTIMISERS = ("muon", "adamw")


@dataclass(frozen=True)
class TokenBudget:
    """What one training may use; the same for every arm.

    Args:
        steps: of the optimiser.
        tokens: of each step, about.
        parts: of a step; each part has questions of one algorithm and size, the more of them the shorter they are.
        warmup: steps over which the learning rate rises; after them it falls along a cosine to zero.
        optimiser: "muon" for the matrices of a decoder's layers and AdamW for the rest, or "adamw" for all.
        clip: the largest norm of a gradient.
        products: what linear layers, in training and test, and Muon multiply in: "bfloat16" or "float32". All else is
            float32.

    Examples:
        >>> from strop.studies.clrs import TokenBudget
        >>> [round(TokenBudget(steps=100, warmup=10).rate(2.0, step), 3) for step in (0, 50, 99)]
        [0.2, 1.0, 0.0]
    """

    steps: int = 1_600
    tokens: int = 2_048
    parts: int = 4
    warmup: int = 100
    optimiser: Literal["muon", "adamw"] = "muon"
    clip: float = 1.0
    products: Literal["bfloat16", "float32"] = "bfloat16"

    def __post_init__(self) -> None:
        for name in ("steps", "tokens", "parts", "warmup"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        require_number("clip", self.clip, above=0)
        require_known("products", self.products, PRODUCTS)
        require_known("optimiser", self.optimiser, OPTIMISERS)

    def rate(self, lr: float, step: int) -> float:
        """The learning rate of a step."""
        return lr * min(1.0, (step + 1) / self.warmup) * 0.5 * (1.0 + math.cos(math.pi * step / self.steps))


@dataclass(frozen=True)
class DecoderShape:
    """A decoder that is trained from scratch, with RoPE.

    Args:
        width: numbers that stand for a token.
        heads: attention heads of a layer.
        layers: how many layers.
        smear: let each key hold a learned share of the key before it.
        expansion: width of the MLP as a multiple of `width`.
        spread: the number of places from which the positions of a sequence are drawn; 0 = consecutive positions.

    Examples:
        >>> from strop.studies.clrs import DecoderShape
        >>> DecoderShape(width=64).heads
        4
    """

    width: int = 96
    heads: int = 4
    layers: int = 4
    smear: bool = True
    expansion: int = 4
    spread: int = field(default=0, metadata=LATER)

    def __post_init__(self) -> None:
        require(self.spread >= 0, "spread must not be negative", self.spread)
        fits = self.width >= 1 and self.width % (2 * self.heads) == 0
        require(fits, "width must be an even multiple of heads", f"{self.width} for {self.heads} heads")


@dataclass(frozen=True)
class LoraShape:
    """A pretrained model whose attention is fine-tuned by low-rank changes (PEFT), its own weights frozen.

    Args:
        model: its name or folder, as `strop probe` takes it.
        rank: of the changes to query, key, value and output projections.

    Examples:
        >>> from strop.studies.clrs import LoraShape
        >>> LoraShape().model
        'smollm2'
    """

    model: str = "smollm2"
    rank: int = 8


@dataclass(frozen=True)
class Lesson:
    """An algorithm and the sizes of its questions."""

    algorithm: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class ClrsTraining:
    """Everything that the weights of one model depend on. It learns all its lessons."""

    lessons: tuple[Lesson, ...]
    normaliser: str
    lr: float
    seed: int
    budget: TokenBudget = field(default_factory=TokenBudget)
    shape: DecoderShape | LoraShape = field(default_factory=DecoderShape)

    @property
    def title(self) -> str:
        """What this run is, for people."""
        return f"{self.normaliser}, seed {self.seed}, rate {self.lr:g}, {self.budget.steps} steps"


@dataclass(frozen=True)
class ClrsTrial:
    """Everything that the figures of one model depend on; `edge_lessons` and `edge_steps` if it has an edge."""

    training: ClrsTraining
    tested: str
    lessons: tuple[Lesson, ...]
    problems: int = 128
    edge_lessons: tuple[Lesson, ...] = ()
    edge_steps: int = 0

    @property
    def title(self) -> str:
        """What this run is, for people."""
        return f"{self.training.title}, tested with {self.tested}"
