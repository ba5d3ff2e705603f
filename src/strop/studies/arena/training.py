"""Train any small model on any task: the loop that every entrant of the arena shares.

Each step draws one batch of one size, uniform over the task's training sizes. AdamW; the rate rises linearly over
`warmup` steps and falls along a cosine to zero; gradients are clipped by their norm:

    rate(t) = lr · min(1, (t + 1) / warmup) · ½ (1 + cos(π t / steps))

What is drawn depends on the generator alone, so that models trained with equal generators see the same problems.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Generator, nn

from strop._checks import require_number
from strop.studies.arena.configs import Budget
from strop.studies.problems.task import Task


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
