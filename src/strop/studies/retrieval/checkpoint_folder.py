"""The trained models that lie in a clone of the repository: checkpoints/<setting>/seed-<k>.safetensors.

They are 12 MB and not part of an installed package; README.md in that folder says how they were made. Copy finished
trainings there with `python -m strop.studies.retrieval.checkpoint_folder runs`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from strop._checks import require
from strop.records import Run
from strop.studies.retrieval.settings import SETTINGS
from strop.studies.retrieval.study import STUDY_FOLDER, Study
from strop.studies.retrieval.training.checkpoint_file import load_tensors, save_tensors
from strop.studies.weights import WEIGHTS_FILE

CHECKPOINTS = Path(__file__).parent / "checkpoints"
TO_TRAIN = "to train them, leave out --quick (in Python take Study() instead of Study.quick())"


def find_checkpoints(setting: str, seeds: int | None = None) -> list[Path]:
    """Return the checkpoints of a setting in the order of their seeds.

    Args:
        setting: a key of `SETTINGS`.
        seeds: how many are wanted; without it, those that there are.

    Raises:
        ValueError: there are fewer than `seeds`; the message says what to do.

    Examples:
        >>> from strop.studies.retrieval import find_checkpoints
        >>> find_checkpoints("literal")
        []
    """
    paths = sorted((CHECKPOINTS / setting).glob("seed-*.safetensors"), key=lambda path: int(path.stem.split("-")[1]))
    if seeds is None:
        return paths
    wanted = f"{setting} must have {seeds} trained models in {CHECKPOINTS}"
    if not list_settings():
        remedy = f"An installed package has none. Work from a clone of the repository or, {TO_TRAIN}"
    else:
        remedy = "Ask for fewer seeds" if paths else f"Choose {', '.join(list_settings())} or, {TO_TRAIN}"
    require(len(paths) >= seeds, wanted, len(paths), remedy)
    return paths[:seeds]


def list_settings() -> list[str]:
    """Return the names of the settings that have checkpoints."""
    return sorted(path.name for path in CHECKPOINTS.glob("*/") if path.is_dir())


def copy_checkpoints(root: Path, target: Path = CHECKPOINTS, study: Study | None = None) -> list[Path]:
    """Copy the weights of every seed of a study, the kinds that its settings evaluate; return what was written."""
    study = study or Study()
    written = []
    for name in study.settings:
        for seed in range(study.seeds):
            config = study.train_config(name, seed)
            tensors, metadata = load_tensors(Run.of(config, STUDY_FOLDER, root).folder / WEIGHTS_FILE, config)
            wanted = {key: t for key, t in tensors.items() if key.split(".")[0] in SETTINGS[name].kinds}
            path = target / name / f"seed-{seed}.safetensors"
            save_tensors(path, wanted, config, int(metadata["step"]))
            written.append(path)
    return written


if __name__ == "__main__":
    for done in copy_checkpoints(Path(sys.argv[1])):
        print(done)  # noqa: T201
