"""What is to be exported, checked and opened: every writer makes its plan from this."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from strop.edges.bake import baked
from strop.edges.place import Placement, place_edge

if TYPE_CHECKING:
    from strop.edges.edge import Edge
    from strop.exporting.gguf_file import GGUFFile
    from strop.pretrained.load import Opened


@dataclass(frozen=True)
class Job:
    """A model, its edge, and where they go.

    Attributes:
        opened: The model, its tokeniser and its name.
        edge: The edge, made for this model.
        out: The file or folder to write.
        file: The GGUF file of the same model, where one is wanted.
        max_rank: Largest rank of an adapter.
        dtype: Of plain weights.
    """

    opened: Opened
    edge: Edge
    out: Path
    file: GGUFFile | None = None
    max_rank: int | None = None
    dtype: str | None = None

    @property
    def model(self) -> nn.Module:
        """The model, as it was given."""
        found: nn.Module = self.opened.model
        return found

    @property
    def gguf(self) -> GGUFFile:
        """The GGUF file, for writers that need one."""
        assert self.file is not None
        return self.file

    @cached_property
    def places(self) -> dict[str, Placement]:
        """Where the edge goes in the model's weights; raises with the reason where it cannot go there."""
        with baked(self.edge, self.model):  # which compares the logits with the patched model's
            pass
        return place_edge(self.edge, self.model)

    @cached_property
    def layers(self) -> dict[nn.Module, str]:
        """Every layer of the model → its name."""
        return {module: name for name, module in self.model.named_modules()}
