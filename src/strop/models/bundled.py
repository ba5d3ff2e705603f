"""Trained retrievers that ship with the package: checkpoints/<setting>/seed-<k>.safetensors (see README.md there)."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "checkpoints"


def bundled(setting: str) -> list[Path]:
    """Return the checkpoints of a setting in the order of their seeds; none for a setting that is not bundled."""
    return sorted((FOLDER / setting).glob("seed-*.safetensors"), key=lambda path: int(path.stem.split("-")[1]))


def settings() -> list[str]:
    """Return the names of the settings that are bundled."""
    return sorted(path.name for path in FOLDER.glob("*/") if path.is_dir())
