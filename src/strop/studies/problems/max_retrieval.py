"""Max retrieval: name the class of the item with the largest value (arXiv 2410.01104).

A set has n items. Item i carries a value rho_i ~ U(0, 1) and a class c_i, uniform over `classes`; the set carries one
query ~ U(0, 1) that says nothing. The target is the class of the item with the largest value:

    rho     0.31  0.94  0.12  0.77        query 0.5
    class      4     7     0     7        target 7

A model sees x_i = [rho_i | onehot(c_i)], padded with zeros to `features` columns (11 for ten classes).
Values are float32 draws, so two items tie for the largest with probability about n / 2^24; the first then counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop.errors import ArgumentError


@dataclass(frozen=True)
class Sets:
    """A batch of sets of one size: values [sets, n], classes [sets, n] (int64), query [sets], target [sets] (int64)."""

    values: Tensor
    classes: Tensor
    query: Tensor
    target: Tensor

    @property
    def size(self) -> int:
        """Items in each set."""
        return self.values.shape[1]


@dataclass(frozen=True)
class MaxRetrieval:
    """The paper's task: the class of the largest of n items.

    Args:
        classes: how many classes there are.
        features: columns of an item: its value, one for each class, and zeros up to this number.

    Examples:
        >>> from strop.studies.problems import MaxRetrieval, stream
        >>> task = MaxRetrieval(classes=10)
        >>> sets = task.sample(sets=2, size=4, generator=stream("example"))
        >>> sets.size, tuple(task.items(sets.values, sets.classes).shape)
        (4, (2, 4, 11))
    """

    classes: int = 10
    features: int = 11

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise ArgumentError(f"classes must be at least 1, got {self.classes}. Use 10, as the paper does.")
        if self.features < self.classes + 1:
            raise ArgumentError(
                f"features must be at least classes + 1 = {self.classes + 1}, got {self.features}. "
                "An item holds its value and one column per class."
            )

    def sample(self, sets: int, size: int, generator: Generator) -> Sets:
        """Draw `sets` sets of `size` items each; the generator alone decides what is drawn."""
        if sets < 1:
            raise ArgumentError(f"sets must be at least 1, got {sets}. Ask for one set or more.")
        if size < 1:
            raise ArgumentError(f"size must be at least 1, got {size}. A set holds one item or more.")
        values = torch.rand(sets, size, generator=generator)
        classes = torch.randint(self.classes, (sets, size), generator=generator)
        query = torch.rand(sets, generator=generator)
        target = classes.gather(1, values.argmax(dim=1, keepdim=True)).squeeze(1)
        return Sets(values, classes, query, target)

    def items(self, values: Tensor, classes: Tensor) -> Tensor:
        """x: values and classes [..., n] -> [..., n, features]."""
        x = values.new_zeros(*values.shape, self.features)
        x[..., 0] = values
        x.scatter_(-1, classes.unsqueeze(-1) + 1, 1.0)
        return x
