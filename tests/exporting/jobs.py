"""Jobs for tests: a tiny model, folds made by hand or an edge, and nothing opened from a disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import families
import tiny
import torch
from edges.test_edge import edge as random_edge
from torch import Tensor, nn

from strop.edges import Edge
from strop.edges.fold import Fold
from strop.edges.place import place_folds
from strop.exporting.job import Job
from strop.patching.identity import heads_of
from strop.patching.layout import find_layout
from strop.pretrained.load import Opened


def model(family: str, **changes: object) -> nn.Module:
    """A model whose norms and biases are not left at their start, so that a wrong one is seen."""
    made = tiny.model(family, **changes)
    draw = torch.Generator().manual_seed(7)
    for name, parameter in made.named_parameters():
        if parameter.dim() == 1 or "q_norm" in name or "k_norm" in name:
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=draw)
    return made


def edge(model: nn.Module, form: str = "constant", outputs: bool = True) -> Edge:
    """An edge of random numbers."""
    return random_edge(model, form, outputs)


def folds(model: nn.Module, rank: int = 2, query: bool = True) -> dict[str, Fold]:
    """Folds with every field that the model can take: a low-rank edit, factors of queries and of outputs."""
    draw, found = torch.Generator().manual_seed(5), {}
    for name, heads in heads_of(model).items():
        layout = find_layout(model.get_submodule(name), heads)
        assert layout.query is not None
        weight = layout.query.weight(heads)
        size = weight.shape[1]
        shared = layout.query_weight is not None and layout.query_weight.numel() == size
        pairs = torch.randn(1 if shared else heads, size // 2, generator=draw).mul(0.3).exp().repeat(1, 2)
        up, down = (
            torch.randn(*shape, generator=draw) * 0.1 for shape in ((heads * size, rank), (rank, weight.shape[2]))
        )
        found[name] = Fold(
            query=pairs if query and not shared else None,
            norm=pairs[0] if query and shared else None,
            low_rank=(up, down) if rank else None,
            outputs=1 + 0.3 * torch.randn(heads, generator=draw),
        )
    return found


def job(model: nn.Module, made: Edge | dict[str, Fold], out: Path, **more: Any) -> Job:
    """A job for a model that is given, with an edge or with folds."""
    opened = Opened("tiny", model, tiny.tokeniser())
    if isinstance(made, Edge):
        return Job(opened, made, out, **more)
    found = Job(opened, edge(model, "none"), out, **more)
    vars(found)["places"] = place_folds(made, model)
    return found


@torch.no_grad()
def logits(model: Any) -> Tensor:
    found: Tensor = model(input_ids=families.ids(2, 24)).logits
    return found


def assert_same(found: Tensor, wanted: Tensor, share: float = 1e-5) -> None:
    """The same logits, to a share of the largest."""
    torch.testing.assert_close(found, wanted, rtol=0, atol=share * float(wanted.abs().max()))
