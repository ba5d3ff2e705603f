"""A part of an edge: the numbers that it has for one attention module, and what they do there.

An edge has at most one part that sets the temperature of a row, at most one that edits the query, and may scale
outputs. Parts act apart from each other, so that any of them may be left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

from torch import Tensor, nn

from strop.edges.fold import Fold
from strop.patching.layer_changes import LayerChange


class Part(nn.Module, ABC):
    """Numbers for one attention module, the parameters of a torch module.

    Attributes:
        term: What it is called in the name of a form.
        fields: The names of its tensors, in the order in which its constructor takes them. In an edge's file they stand
            behind the module's name, so no two parts have a field in common.
    """

    term: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def start(cls, module: nn.Module, heads: int, rank: int) -> Self:
        """Return the part that changes nothing in an attention module of so many heads."""

    @abstractmethod
    def fold(self) -> Fold | None:
        """Return what the part does to the module's weights; None where that depends on the input."""

    @abstractmethod
    def describe(self, n_keys: float, entropy: float) -> Mapping[str, Tensor]:
        """Return what is done to each head, [heads] or [1]: beta, output, and whether it is turned.

        β is that of a row that sees `n_keys` with this entropy. A head is turned where the order of its keys may
        change.
        """

    def change_layer(self, module: nn.Module, heads: int) -> LayerChange | None:
        """Return which layer of an attention module acts differently, and how; None for a temperature."""
        return None

    def lengths(self, module: nn.Module, heads: int) -> list[float]:
        """Return what a change of each parameter is to be held against: 1, unless it is added to weights."""
        return [1.0 for _ in self.parameters()]

    def tensors(self) -> dict[str, Tensor]:
        """Return the numbers by field."""
        return {field: getattr(self, field).detach().clone() for field in self.fields}
