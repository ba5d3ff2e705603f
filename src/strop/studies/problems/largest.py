"""Max retrieval as a task of the arena: the class of the item with the largest value (`max_retrieval.py`).

    rho     0.31  0.94  0.12  0.77        query 0.5
    class      4     7     0     7        target 7

An item is [rho | onehot(class)] and the query says nothing. One item matters of n. Chance: 1 in 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.problems.task import Problems, SetTask


@dataclass(frozen=True)
class LargestItem(SetTask):
    """The class of the largest of n items."""

    name = "max_retrieval"
    classes: int = 10

    @property
    def features(self) -> int:
        """A value and one column per class."""
        return self.classes + 1

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        task = MaxRetrieval(self.classes, self.features)
        sets = task.sample(count, size, generator)
        return Problems(task.items(sets.values, sets.classes), sets.query[:, None], sets.target, size)

    def solve(self, problems: Problems) -> Tensor:
        """Find the first of the largest values and read its class."""
        items = problems.inputs
        best = items[..., 0].argmax(1)[:, None, None].expand(-1, 1, items.shape[-1])
        return items.gather(1, best)[:, 0, 1:].argmax(-1)


@dataclass(frozen=True)
class CloseItems(LargestItem):
    """Max retrieval whose training sets are close calls: the order of nearly equal values is what large sets ask for.

    The largest of n uniform values leads by about 1/n. A model trained on at most 16 items hardly ever sees a lead of
    1/16,384, so it need not learn the order there. Here every other training set is squeezed towards 1,

        rho ← 1 − 2^−k·(1 − rho),     k uniform over 0 … halvings

    (all of them would be too hard to begin with), and test sets are those of max retrieval.
    """

    name = "max_retrieval_close"
    halvings: int = 18

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        plain = super()._draw(count, size, generator, split)
        if split != "train":
            return plain
        exponent = torch.randint(self.halvings + 1, (count, 1), generator=generator)
        exponent[::2] = 0
        plain.inputs[..., 0] = 1 - torch.ldexp(1 - plain.inputs[..., 0], -exponent)
        return Problems(plain.inputs, plain.query, self.solve(plain), size)
