"""The numbers that calibration moves: a form per attention module and, if wanted, a scale per head output.

An unfinished calibration is kept on disk as safetensors: the numbers, the optimiser and the best so far.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from strop.calibration.edge import Edge
from strop.calibration.forms import find_form
from strop.calibration.interventions import recompute_layers, scale_outputs, temper
from strop.calibration.optimiser import NaturalDescent
from strop.errors import DamagedFileError
from strop.patching.identity import heads_of
from strop.patching.placement import device_of
from strop.records import atomic_path


class Numbers(nn.Module):
    """Learnable numbers for a model's heads; the model itself is not held."""

    def __init__(self, model: nn.Module, name: str, outputs: bool) -> None:
        super().__init__()
        heads = heads_of(model)
        places = {module: device_of(model.get_submodule(module)) for module in heads}
        scaled = heads.items() if outputs else ()
        self.form = name
        self.rules = {module: find_form(name)(count).to(places[module]) for module, count in heads.items()}
        self.scales = {module: nn.Parameter(torch.zeros(count, device=places[module])) for module, count in scaled}
        self.numbers = nn.ParameterList([rule.numbers for rule in self.rules.values() if rule.count])
        self.outputs = nn.ParameterList(self.scales.values())

    @contextmanager
    def on(self, model: nn.Module, again: bool = False) -> Iterator[None]:
        """Put the numbers in force; gradients reach them, with `again` by running layers again."""
        with ExitStack() as stack:
            if self.form != "none":
                stack.enter_context(temper(model, self.rules, by_queries=not again))
            stack.enter_context(scale_outputs(model, self.scales))
            stack.enter_context(recompute_layers(model) if again else nullcontext())
            yield

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
        numbers = {name: rule.numbers.detach().cpu().clone() for name, rule in self.rules.items()}
        outputs = {name: scale.detach().cpu().clone() for name, scale in self.scales.items()}
        return Edge.of(model, self.form, numbers, outputs)


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
    from safetensors.torch import save_file

    tensors = {f"best.{i}": value for i, value in enumerate(best)} | optimiser.tensors()
    tensors |= {f"value.{i}": parameter.detach().clone() for i, parameter in enumerate(numbers.parameters())}
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={"progress": json.dumps(asdict(progress))})


def load_state(path: Path, numbers: Numbers, optimiser: NaturalDescent) -> tuple[Progress, list[Tensor]]:
    """Put a saved state into the numbers and the optimiser; return the progress and the best numbers."""
    from safetensors import SafetensorError, safe_open

    parameters = list(numbers.parameters())
    try:
        with safe_open(path, framework="pt") as file:
            progress = Progress(**json.loads(file.metadata()["progress"]))
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        best = [tensors[f"best.{i}"] for i in range(len(parameters))]
        numbers.restore([tensors[f"value.{i}"] for i in range(len(parameters))])
        optimiser.restore(tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DamagedFileError(
            f"{path} must be an unfinished calibration of these settings, got: {error}. Delete it to begin anew."
        ) from error
    return progress, best
