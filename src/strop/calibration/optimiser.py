"""Descent in the metric of drift: every number moves in proportion to what it gains and to what prose lets it.

    F_h    = mean over places of prose of (∂ log p(y) / ∂ number h)²,  y drawn from the untouched model
    reach  = 1 / √(F_h + a tenth of their mean)           so that a drift of ε is about ½·Σ (number / reach)²
    number ← number − rate·reach · m / √v,                m, v: running means of reach·gradient and its square

Adam moves all numbers alike, however little they gain, and spends the budget of drift on all heads of the model; this
spends it where the gradient is. Its unit of length is the square root of drift, so one rate suits every model and form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

MEMORY = 0.9
FLOOR = 0.1


class NaturalDescent:
    """The optimiser: `reach` is set once, from the squared scores."""

    scored: ClassVar[bool] = True
    """Whether the squared scores of prose are to be measured."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.reach = [torch.ones_like(parameter.data) for parameter in self.parameters]
        self.mean = [torch.zeros_like(parameter.data) for parameter in self.parameters]
        self.square = torch.zeros(2)  # the running mean and how many steps it is of

    def measure(self, curvature: Sequence[Tensor], radius: float, lengths: Sequence[float]) -> None:
        """Set how far each number may go, from the squared scores; they know the lengths of the numbers already."""
        floor = FLOOR * torch.cat([one.flatten().cpu() for one in curvature]).mean() + 1e-12
        self.reach = [(one + floor).rsqrt() for one in curvature]

    def slope(self) -> float:
        """The length of the present gradient, in nats for a unit of the root of twice the drift."""
        return math.sqrt(sum(float((g * g).sum()) for g in self._gradients()))

    def first_weight(self, radius: float) -> float:
        """The weight of drift at which the task's present gradient and the drift's would balance at the budget."""
        return self.slope() / radius

    def pace(self, rank: int, weight: float) -> float:
        """What steps are to be multiplied by for a rank and a λ: nothing, since the metric knows them."""
        return 1.0

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move by about `rate`, in the metric of drift, along the remembered gradient."""
        found = self._gradients()
        squared = sum((g * g).sum().cpu() for g in found)  # numbers lie with their layers
        self.square = torch.stack([MEMORY * self.square[0] + (1 - MEMORY) * squared, self.square[1] + 1])
        whole = 1.0 - MEMORY ** float(self.square[1])
        length = (self.square[0] / whole).sqrt().clamp(min=1e-12)
        for parameter, reach, mean, gradient in zip(self.parameters, self.reach, self.mean, found, strict=True):
            mean.mul_(MEMORY).add_(gradient, alpha=1 - MEMORY)
            parameter.sub_(rate * reach * mean / (whole * length))

    @torch.no_grad()
    def shrink(self, amount: float, starts: Sequence[Tensor]) -> None:
        """Move every number towards its start by `amount` of its reach: the proximal step of an L1 penalty."""
        for parameter, reach, start in zip(self.parameters, self.reach, starts, strict=True):
            way = parameter - start
            parameter.copy_(start + way.sign() * (way.abs() - amount * reach).clamp(min=0.0))

    def zero(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """Everything that going on needs."""
        named = {f"reach.{i}": one for i, one in enumerate(self.reach)}
        return named | {f"mean.{i}": one.clone() for i, one in enumerate(self.mean)} | {"square": self.square}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put it back."""
        self.reach = [tensors[f"reach.{i}"].to(one.device) for i, one in enumerate(self.reach)]
        self.mean = [tensors[f"mean.{i}"].to(one.device) for i, one in enumerate(self.mean)]
        self.square = tensors["square"]

    def _gradients(self) -> list[Tensor]:
        pairs = zip(self.parameters, self.reach, strict=True)
        return [reach * (torch.zeros_like(p.data) if p.grad is None else p.grad) for p, reach in pairs]
