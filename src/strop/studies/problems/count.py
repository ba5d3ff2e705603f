"""Count, a control: which class is the most frequent among n items. Every item matters alike.

    value   0.31  0.94  0.12  0.77  0.81        (says nothing)
    class      4     7     2     7     0        target 7

The planted class has max(2, ⌊n/5⌋ + 1) items; the rest go round the other nine classes in a random order, so that each
of those has at most ⌈rest/9⌉. The margin is 1 or more for every n from 2 on, and about n/9: never a tie, and equal
weights see it at every n. An item is [value | onehot(class)], as in max retrieval, so that a habit of looking at large
values has something to hold on to; the query says nothing. Chance: 1 in 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop._checks import require
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.problems.task import Problems, SetTask, draw_orders, draw_query


@dataclass(frozen=True)
class Count(SetTask):
    """The most frequent class of n items."""

    name = "count"
    control = True
    smallest = 2
    classes: int = 10

    def __post_init__(self) -> None:
        require(self.classes >= 10, "classes must be at least 10", self.classes, "With fewer there may be ties")

    @property
    def features(self) -> int:
        """A value and one column per class."""
        return self.classes + 1

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        order = draw_orders(count, self.classes, generator)
        planted, others = order[:, :1], order[:, 1:]
        most = count_planted(size)
        rest = others[:, torch.arange(size - most) % (self.classes - 1)]
        classes = torch.cat([planted.expand(-1, most), rest], 1).gather(1, draw_orders(count, size, generator))
        values = torch.rand(count, size, generator=generator)
        items = MaxRetrieval(self.classes, self.features).items(values, classes)
        return Problems(items, draw_query(count, generator), planted[:, 0], size)

    def solve(self, problems: Problems) -> Tensor:
        """Count."""
        return problems.inputs[..., 1:].double().sum(1).argmax(-1)


def count_planted(size: int) -> int:
    """Return how many of n items have the planted class."""
    return max(2, size // 5 + 1)
