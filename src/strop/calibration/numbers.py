"""The numbers that calibration moves: the parts of an edge, for every attention module of a model.

An unfinished calibration is kept on disk as safetensors: the numbers, the optimiser and the best so far.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from strop.calibration.optimiser import NaturalDescent
from strop.calibration.recompute import recompute_layers
from strop.edges.apply import apply_parts
from strop.edges.edge import Edge
from strop.edges.forms import read_form
from strop.edges.output_scales import OutputScales
from strop.edges.part import Part
from strop.edges.parts import PARTS
from strop.edges.query_edits import LowRankQuery
from strop.errors import DamagedFileError
from strop.patching.identity import heads_of
from strop.patching.placement import device_of
from strop.records.tensors import read_tensors, write_tensors


class Numbers(nn.Module):
    """Learnable numbers for a model's heads; the model itself is not held."""

    def __init__(self, model: nn.Module, form: str, outputs: bool, rank: int = 1) -> None:
        super().__init__()
        modules, heads = dict(model.named_modules()), heads_of(model)
        terms = read_form(form) + ((OutputScales.term,) if outputs else ())
        self.parts = {
            term: {name: _start(PARTS[term], modules[name], count, rank) for name, count in heads.items()}
            for term in terms
        }
        self.held = nn.ModuleList(part for named in self.parts.values() for part in named.values())
        self.lengths = [
            length for named in self.parts.values() for name, part in named.items()
            for length in part.lengths(modules[name], heads[name])
        ]  # fmt: skip
        self.start = self.state()

    @contextmanager
    def on(self, model: nn.Module, again: bool = False) -> Iterator[None]:
        """Put the numbers in force; gradients reach them, with `again` by running layers again.

        Layers that are run again do so outside the mode that scales queries, so temperatures then go by the kernels.
        """
        with apply_parts(model, self.parts, by_queries=not again), recompute_layers(model) if again else nullcontext():
            yield

    def downs(self) -> list[nn.Parameter]:
        """Return the directions of a low-rank edit, in the order of attention modules; none where there is no such."""
        return [part.down for part in self.held if isinstance(part, LowRankQuery)]

    @torch.no_grad()
    def turn(self, directions: Sequence[Tensor]) -> None:
        """Begin with these directions of a low-rank edit, by which nothing is done yet."""
        for down, one in zip(self.downs(), directions, strict=True):
            down.copy_(one)
        self.start = self.state()

    def way_back(self, state: list[Tensor], share: float) -> list[Tensor]:
        """Return numbers on the way from the start, at which nothing is changed, to a state."""
        return [start + share * (value - start) for start, value in zip(self.start, state, strict=True)]

    def state(self) -> list[Tensor]:
        """Return a copy of all numbers."""
        return [parameter.detach().clone() for parameter in self.parameters()]

    @torch.no_grad()
    def restore(self, state: list[Tensor]) -> None:
        """Put a copy back."""
        for parameter, value in zip(self.parameters(), state, strict=True):
            parameter.copy_(value)

    def edge(self, model: nn.Module) -> Edge:
        """Return the numbers as an edge for the model."""
        parts = {
            term: {name: copy.deepcopy(part).cpu() for name, part in named.items()}
            for term, named in self.parts.items()
        }
        return Edge.of(model, parts)


def _start(kind: type[Part], module: nn.Module, heads: int, rank: int) -> Part:
    """A part that changes nothing yet, where its module lies."""
    return kind.start(module, heads, rank).to(device_of(module))


@dataclass(frozen=True)
class Progress:
    """Where a calibration stands; losses in nats."""

    step: int = 0
    task: float = math.nan
    drift: float = 0.0
    weight: float = 0.0
    valid_task: float = math.nan
    valid_drift: float = math.nan
    valid_harm: float = math.nan
    first_task: float = math.nan
    best_task: float = math.inf
    best_drift: float = 0.0
    best_harm: float = 0.0
    best_step: int = 0
    waited: int = 0
    seconds: float = 0.0


def save_state(path: Path, progress: Progress, best: list[Tensor], numbers: Numbers, optimiser: NaturalDescent) -> None:
    """Write everything that going on needs."""
    tensors = {f"best.{i}": value for i, value in enumerate(best)} | optimiser.tensors()
    for name, state in (("value", numbers.state()), ("start", numbers.start)):
        tensors |= {f"{name}.{i}": value for i, value in enumerate(state)}
    write_tensors(path, tensors, {"progress": json.dumps(asdict(progress))})


def load_state(path: Path, numbers: Numbers, optimiser: NaturalDescent) -> tuple[Progress, list[Tensor]]:
    """Put a saved state into the numbers and the optimiser; return the progress and the best numbers."""
    parameters = list(numbers.parameters())
    tensors, metadata = read_tensors(path, "Delete it to begin anew")
    try:
        progress = Progress(**json.loads(metadata["progress"]))
        best = [tensors[f"best.{i}"] for i in range(len(parameters))]
        numbers.restore([tensors[f"value.{i}"] for i in range(len(parameters))])
        numbers.start = [tensors[f"start.{i}"].to(one.device) for i, one in enumerate(parameters)]
        optimiser.restore(tensors)
    except (ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DamagedFileError(
            f"{path} must be an unfinished calibration of these settings, got: {error}. Delete it to begin anew."
        ) from error
    return progress, best
