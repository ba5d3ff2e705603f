"""Copy finished trainings into the package, to ship: `python -m strop.experiments.bundle runs`."""

from __future__ import annotations

import sys
from pathlib import Path

from strop.experiments.reproduce import Study
from strop.experiments.reproduce_jobs import EXPERIMENT
from strop.experiments.reproduce_settings import SETTINGS
from strop.models.bundled import FOLDER
from strop.records import Run
from strop.train.checkpoint import load, save
from strop.train.resumable import WEIGHTS


def bundle(root: Path, target: Path = FOLDER, study: Study | None = None) -> list[Path]:
    """Copy the weights of every seed of a study, the kinds that its settings evaluate; return what was written."""
    study = study or Study()
    written = []
    for name in study.settings:
        for seed in range(study.seeds):
            config = study.train(name, seed)
            tensors, metadata = load(Run.of(config, EXPERIMENT, root).folder / WEIGHTS, config)
            kept = {key: t for key, t in tensors.items() if key.split(".")[0] in SETTINGS[name].kinds}
            path = target / name / f"seed-{seed}.safetensors"
            save(path, kept, config, int(metadata["step"]))
            written.append(path)
    return written


if __name__ == "__main__":
    for done in bundle(Path(sys.argv[1])):
        print(done)  # noqa: T201
