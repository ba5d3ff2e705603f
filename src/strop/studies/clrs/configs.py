"""What the runs of the CLRS-Text study depend on. Plain values: their content addresses name the runs' folders."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from strop._checks import require, require_number

CLRS_FOLDER = "clrs-text"
"""The folder of the study under a folder of runs."""


@dataclass(frozen=True)
class TokenBudget:
    """What one training may use; the same for every arm.

    Args:
        steps: of the optimiser.
        tokens: of each step, about; a step has questions of one size, the more of them the shorter they are.
        warmup: steps over which the learning rate rises; after them it falls along a cosine to zero.
        weight_decay: AdamW's.
        clip: the largest norm of a gradient.

    Examples:
        >>> from strop.studies.clrs import TokenBudget
        >>> [round(TokenBudget(steps=100, warmup=10).rate(2.0, step), 3) for step in (0, 50, 99)]
        [0.2, 1.0, 0.0]
    """

    steps: int = 1_500
    tokens: int = 2_048
    warmup: int = 100
    weight_decay: float = 1e-3
    clip: float = 1.0

    def __post_init__(self) -> None:
        for name in ("steps", "tokens", "warmup"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        require_number("clip", self.clip, above=0)

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

    Examples:
        >>> from strop.studies.clrs import DecoderShape
        >>> DecoderShape(width=64).heads
        4
    """

    width: int = 96
    heads: int = 4
    layers: int = 3
    smear: bool = True
    expansion: int = 4


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
class ClrsTraining:
    """Everything that the weights of one model depend on."""

    algorithm: str
    normaliser: str
    lr: float
    seed: int
    sizes: tuple[int, ...]
    budget: TokenBudget = field(default_factory=TokenBudget)
    shape: DecoderShape | LoraShape = field(default_factory=DecoderShape)

    @property
    def title(self) -> str:
        """What this run is, for people."""
        return f"{self.algorithm}, {self.normaliser}, seed {self.seed}, rate {self.lr:g}"


@dataclass(frozen=True)
class ClrsTrial:
    """Everything that the figures of one model depend on; `edge` are sizes and steps of an edge, if it has one."""

    training: ClrsTraining
    tested: str
    sizes: tuple[int, ...]
    problems: int = 128
    edge_sizes: tuple[int, ...] = ()
    edge_steps: int = 0

    @property
    def title(self) -> str:
        """What this run is, for people."""
        return f"{self.training.title}, tested with {self.tested}"
