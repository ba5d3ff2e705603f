"""What a step of calibration leaves as it was: ordinary prose, and guarded tasks.

    loss + λ·drift + HARM·harm,      λ rises while the drift is above AIM·budget and falls while it is below

Where there is a guard, one step reads prose and the next a guarded task, each at twice its weight: half the passes, and
the same pull in the optimiser's memory.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from strop.calibration.objective import Drift, Guard

HARM = 2.0
"""Nats of task that a nat of harm costs."""

PACE = 0.15
"""Most by which λ changes at once."""

AIM = 0.7
"""Share of the budget that λ aims at: other prose, and the worst length, drift more than the windows descended on."""


def reads_prose(guard: Guard, step: int) -> bool:
    """Whether a step reads prose, and not a guarded task."""
    return not guard.tasks or step % 2 == 0


def hold_still(model: nn.Module, drift: Drift, guard: Guard, step: int, weight: float) -> Tensor:
    """Add a step's gradients of drift, weighed by λ, or of harm; return the drift, 0 where no prose is read."""
    count = len(guard.tasks)
    turns = 2 if count else 1
    turn = step // turns
    if reads_prose(guard, step):
        return _pull(drift.of(model, turn), turns * weight)
    harm = guard.of(model, turn % count, turn // count)
    if harm > 0:
        _pull(harm, turns * HARM)
    return torch.zeros(())


def change_weight(weight: float, drift: float, budget: float) -> float:
    """Return λ after prose was read: larger where the drift is above AIM·budget, smaller where it is below."""
    pull = math.pow(max(drift, 0.0) / (AIM * budget), 0.2)
    return weight * min(max(pull, 1.0 - PACE), 1.0 + PACE)


def _pull(loss: Tensor, weight: float) -> Tensor:
    torch.autograd.backward(weight * loss)
    return loss.detach()
