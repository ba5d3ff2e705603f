"""Descent for edits of the query, whose numbers act together: every number moves by about the same share a step.

    number ← number − STEP·length·rate · m / √v,     m, v: running means of the gradient and of its square

length is 1 but for what is added to weights, which moves by a share of their rows (`Part.lengths`).

This is Adam's rule (arXiv 1412.6980). Steps in the metric of drift (optimiser.py) take numbers as independent. Those of
a low-rank edit are not: they all act through the same few products, so that a step that the metric calls short moves
the model far, and a factor whose counterpart starts at 0 has no metric at all. Here the budget is kept by λ alone, and
by the way back in validation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from strop.calibration.optimiser import NaturalDescent

STEP = 0.04
"""The share of its length that a number moves in a step of rate 1."""

MEAN, SQUARE = 0.9, 0.95
"""How much of the running means is kept a step."""

FIRST_WEIGHT = 40.0
"""Nats of the task that a nat of drift costs at first."""

LARGE_WEIGHT = 4 * FIRST_WEIGHT
"""Where steps begin to shorten."""


class LevelDescent(NaturalDescent):
    """The optimiser; it needs no scores of prose."""

    scored = False

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        super().__init__(parameters)
        self.squares = [torch.zeros_like(parameter.data) for parameter in self.parameters]

    def measure(self, curvature: Sequence[Tensor], radius: float, lengths: Sequence[float]) -> None:
        """Set the reach of all numbers, such that a step of the whole radius is STEP of their lengths."""
        pairs = zip(self.parameters, lengths, strict=True)
        self.reach = [torch.full_like(one.data, length * STEP / radius) for one, length in pairs]

    def first_weight(self, radius: float) -> float:
        """A constant: where the drift is above or below its aim, the weight changes soon enough."""
        return FIRST_WEIGHT

    def pace(self, rank: int, weight: float) -> float:
        """Shorter steps from rank 2 on: the length of up·down grows as √rank where every number moves as far.

        Shorter ones too where λ has risen far: then it is the steps that drift, not what they gain.
        """
        return min(1.0, math.sqrt(2 / rank)) * min(1.0, LARGE_WEIGHT / weight)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every number by about `rate` of its reach."""
        count = float(self.square[1]) + 1.0
        self.square = torch.tensor([0.0, count])
        whole, whole_square = 1.0 - MEAN**count, 1.0 - SQUARE**count
        pieces = zip(self.parameters, self.reach, self.mean, self.squares, strict=True)
        for parameter, reach, mean, square in pieces:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            mean.mul_(MEAN).add_(gradient, alpha=1 - MEAN)
            square.mul_(SQUARE).add_(gradient**2, alpha=1 - SQUARE)
            parameter.sub_(rate * reach * (mean / whole) / ((square / whole_square).sqrt() + 1e-8))

    def tensors(self) -> dict[str, Tensor]:
        """Everything that going on needs."""
        return super().tensors() | {f"square.{i}": one.clone() for i, one in enumerate(self.squares)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Put it back."""
        super().restore(tensors)
        self.squares = [tensors[f"square.{i}"].to(one.device) for i, one in enumerate(self.squares)]
