"""Average, a control: which tenth of [0, 1] holds the average of the values. Every item matters alike.

    value   1.13  -0.09  0.88  0.02  1.01        average 0.59        target 5

The average m is drawn first: a bin, uniform over `classes`, and a place in the bin's middle six tenths, so that it is
never near an edge. Value i is then 0 or 1 (1 with probability m) plus U(−1/4, 1/4), and the whole set is moved so that
its average is m to float32. Equal weights are therefore exactly right at every n, and the largest or smallest values
say nothing of m once n is large. An item is [value] and the query says nothing. Chance: 1 in 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop.studies.problems.task import Problems, SetTask, draw_query

EDGE = 0.2
"""The part of a bin at either end in which no average lies."""


@dataclass(frozen=True)
class Average(SetTask):
    """The bin of the mean of n values."""

    name = "average"
    control = True
    classes: int = 10

    @property
    def features(self) -> int:
        """A value."""
        return 1

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        target = torch.randint(self.classes, (count,), generator=generator)
        place = EDGE + (1 - 2 * EDGE) * torch.rand(count, generator=generator, dtype=torch.float64)
        mean = ((target + place) / self.classes)[:, None]
        ones = torch.rand(count, size, generator=generator) < mean
        values = ones + 0.5 * torch.rand(count, size, generator=generator, dtype=torch.float64)
        values += mean - values.mean(1, keepdim=True)
        return Problems(values.float()[..., None], draw_query(count, generator), target, size)

    def solve(self, problems: Problems) -> Tensor:
        """Average in float64."""
        return (problems.inputs[..., 0].double().mean(1) * self.classes).floor().long()
