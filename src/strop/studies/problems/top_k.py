"""Top-k class: the class with most votes among the three largest items; a tie goes to the class of the larger value.

    rho     0.31  0.94  0.12  0.77  0.81        the three largest, in order: 7 2 2
    class      4     7     0     2     2        target 2

Weights that fall with rank solve it (0.4, 0.32, 0.28: the first wins a tie and loses to the other two), all weight on
the largest does not: in half of the sets the second and third are made to agree on a class other than the first's, so
that the class of the largest is right in about 45 %. An item is [rho | onehot(class)], as in max retrieval, and the
query says nothing. Three items matter of n. Chance: 1 in 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop._checks import require
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.problems.task import Problems, SetTask, draw_query


@dataclass(frozen=True)
class TopKClass(SetTask):
    """The vote of the three largest of n items."""

    name = "top_k_class"
    smallest = 3
    classes: int = 10

    def __post_init__(self) -> None:
        require(self.classes >= 2, "classes must be at least 2", self.classes)

    @property
    def features(self) -> int:
        """A value and one column per class."""
        return self.classes + 1

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        values = torch.rand(count, size, generator=generator)
        classes = torch.randint(self.classes, (count, size), generator=generator)
        first, second, third = places = _three_largest(values)
        shift = torch.randint(1, self.classes, (count, 1), generator=generator)
        other = (classes.gather(1, first) + shift) % self.classes
        against = torch.rand(count, 1, generator=generator) < 0.5
        for place in (second, third):
            classes.scatter_(1, place, torch.where(against, other, classes.gather(1, place)))
        items = MaxRetrieval(self.classes, self.features).items(values, classes)
        voters = [classes.gather(1, place)[:, 0] for place in places]
        return Problems(items, draw_query(count, generator), _vote(*voters), size)

    def solve(self, problems: Problems) -> Tensor:
        """Rank the values, then count votes that fall a little with rank."""
        order = problems.inputs[..., 0].sort(dim=1, descending=True, stable=True).indices[:, :3]
        votes = problems.inputs[..., 1:].gather(1, order[..., None].expand(-1, -1, self.classes))
        return (votes * torch.tensor([1.2, 1.1, 1.0])[:, None]).sum(1).argmax(-1)


def _three_largest(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Places [count, 1] of the largest three; the first of equals comes first."""
    first = values.argmax(1, keepdim=True)
    rest = values.scatter(1, first, -1.0)
    second = rest.argmax(1, keepdim=True)
    return first, second, rest.scatter_(1, second, -1.0).argmax(1, keepdim=True)


def _vote(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    return torch.where((second == third), second, first)
