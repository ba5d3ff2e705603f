"""An unfinished calibration on disk: safetensors with the numbers, Adam's memory and the best so far; never pickle."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from strop.calibrate.tuned import Tuned
from strop.records import DamagedFileError, atomic_path

MEMORY = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True)
class Progress:
    """Where a calibration stands; losses in nats."""

    step: int = 0
    task: float = math.nan
    drift: float = 0.0
    weight: float = 1.0
    valid_task: float = math.nan
    valid_drift: float = math.nan
    first_task: float = math.nan
    best_task: float = math.inf
    best_drift: float = 0.0
    best_step: int = 0
    waited: int = 0
    seconds: float = 0.0


def save_state(path: Path, progress: Progress, best: list[Tensor], tuned: Tuned, adam: torch.optim.Adam) -> None:
    """Write everything that going on needs."""
    from safetensors.torch import save_file

    tensors = {f"best.{i}": value for i, value in enumerate(best)}
    for i, parameter in enumerate(tuned.parameters()):
        tensors[f"value.{i}"] = parameter.detach().clone()
        tensors |= {f"{key}.{i}": adam.state[parameter][key].clone() for key in MEMORY}
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={"progress": json.dumps(asdict(progress))})


def load_state(path: Path, tuned: Tuned, adam: torch.optim.Adam) -> tuple[Progress, list[Tensor]]:
    """Put a saved state into the numbers and the optimiser; return the progress and the best numbers."""
    from safetensors import SafetensorError, safe_open

    parameters = list(tuned.parameters())
    try:
        with safe_open(path, framework="pt") as file:
            progress = Progress(**json.loads(file.metadata()["progress"]))
            values = [file.get_tensor(f"value.{i}") for i in range(len(parameters))]
            best = [file.get_tensor(f"best.{i}") for i in range(len(parameters))]
            memory: list[dict[str, Any]] = [
                {key: file.get_tensor(f"{key}.{i}") for key in MEMORY} for i in range(len(parameters))
            ]
        tuned.restore(values)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DamagedFileError(
            f"{path} must be an unfinished calibration of these settings, got: {error}. Delete it to begin anew."
        ) from error
    for parameter, remembered in zip(parameters, memory, strict=True):
        adam.state[parameter] = remembered
    return progress, best
