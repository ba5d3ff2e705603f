"""The part that scales what each head gives: SEAL's remedy (arXiv 2501.15225), out = W_o·[s_1·o_1; …], s_h = 1 + a_h.

It works where the heads' outputs enter the output projection, and folds into that projection's columns.
"""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from strop.edges.fold import Fold
from strop.edges.part import Part
from strop.patching.layer_changes import LayerChange
from strop.patching.layout import find_output


class OutputScales(Part):
    """Output scales less 1, `outputs` [heads]."""

    term: ClassVar[str] = "outputs"
    fields = ("outputs",)

    def __init__(self, outputs: Tensor) -> None:
        super().__init__()
        self.outputs = nn.Parameter(outputs.float().clone())

    @classmethod
    def start(cls, module: nn.Module, heads: int, rank: int) -> Self:
        """Zeros."""
        return cls(torch.zeros(heads))

    def fold(self) -> Fold:
        """The scales."""
        return Fold(outputs=1.0 + self.outputs.detach())

    def describe(self, n_keys: float, entropy: float) -> dict[str, Tensor]:
        """The scales."""
        return {"output": 1.0 + self.outputs.detach()}

    def change_layer(self, module: nn.Module, heads: int) -> LayerChange:
        """Scale what the output projection is given."""
        fixed = None if self.outputs.requires_grad else 1.0 + self.outputs[:, None]

        def scale(joined: Tensor) -> Tensor:
            by_head = joined.reshape(*joined.shape[:-1], heads, joined.shape[-1] // heads)
            scales = 1.0 + self.outputs[:, None] if fixed is None else fixed
            return (by_head * scales.to(by_head)).flatten(-2)

        return LayerChange(find_output(module), given=scale)
