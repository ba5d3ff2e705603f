"""Tensors on disk: safetensors, never pickle; written whole, and read whole or refused.

The package safetensors is loaded when a function is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from strop.errors import DamagedFileError, RecordsError
from strop.records.files import atomic_path

if TYPE_CHECKING:
    from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors atomically, with a few strings about them."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    held = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        try:
            save_file(held, temporary, metadata=dict(metadata) if metadata else None)
        except SafetensorError as error:  # which wraps what the disk says
            reason = f"{path} must be writable, got: {error}. Free some space or choose another folder."
            raise RecordsError(reason) from error


def read_tensors(path: Path, remedy: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the strings about them; a file that is damaged or not there is told with the remedy."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError as error:
        raise RecordsError(f"{path} must exist, got nothing there. {remedy}.") from error
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise DamagedFileError(f"{path} must be a whole safetensors file, got: {error}. {remedy}.") from error
