"""Train any small model on any task of `strop.tasks`: the loop that every entrant of the arena shares.

Each step draws one batch of one size, uniform over the task's training sizes. AdamW; the rate rises linearly over
`warmup` steps and falls along a cosine to zero; gradients are clipped by their norm:

    rate(t) = lr · min(1, (t + 1) / warmup) · ½ (1 + cos(π t / steps))

What is drawn depends on the generator alone, so that models trained with equal generators see the same problems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, nn

from strop._checks import require, require_number
from strop.tasks.problems import Task


@dataclass(frozen=True)
class Budget:
    """What one training may use; the same for every entrant."""

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


def train_on(model: nn.Module, task: Task, budget: Budget, lr: float, generator: Generator) -> None:
    """Train in place; raise ArithmeticError as soon as the loss is not finite."""
    require_number("lr", lr, above=0)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=lr, weight_decay=budget.weight_decay, fused=True)
    low, high = task.train_sizes
    model.train()
    for step in range(budget.steps):
        size = int(torch.randint(low, high + 1, (), generator=generator))
        problems = task.sample(budget.batch, size, generator)
        loss = F.cross_entropy(model(*problems.arguments), problems.answers)
        if not math.isfinite(loss.item()):
            raise ArithmeticError(f"loss must stay finite, got {loss.item()} at step {step + 1}. Lower lr.")
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, budget.clip)
        optimiser.param_groups[0]["lr"] = budget.rate(lr, step)
        optimiser.step()
    model.eval()
