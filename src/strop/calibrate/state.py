"""An unfinished calibration on disk: safetensors with numbers, optimiser and the best so far; never pickle."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from strop.calibrate.natural import Natural
from strop.calibrate.tuned import Tuned
from strop.records import DamagedFileError, atomic_path


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


def save_state(path: Path, progress: Progress, best: list[Tensor], tuned: Tuned, descent: Natural) -> None:
    """Write everything that going on needs."""
    from safetensors.torch import save_file

    tensors = {f"best.{i}": value for i, value in enumerate(best)} | descent.tensors()
    tensors |= {f"value.{i}": parameter.detach().clone() for i, parameter in enumerate(tuned.parameters())}
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={"progress": json.dumps(asdict(progress))})


def load_state(path: Path, tuned: Tuned, descent: Natural) -> tuple[Progress, list[Tensor]]:
    """Put a saved state into the numbers and the optimiser; return the progress and the best numbers."""
    from safetensors import SafetensorError, safe_open

    parameters = list(tuned.parameters())
    try:
        with safe_open(path, framework="pt") as file:
            progress = Progress(**json.loads(file.metadata()["progress"]))
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        best = [tensors[f"best.{i}"] for i in range(len(parameters))]
        tuned.restore([tensors[f"value.{i}"] for i in range(len(parameters))])
        descent.restore(tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DamagedFileError(
            f"{path} must be an unfinished calibration of these settings, got: {error}. Delete it to begin anew."
        ) from error
    return progress, best
