"""The file of an edge: safetensors, a few kilobytes, never pickle.

Tensors: `<module>.numbers` [heads, count] for every attention module (forms.py says what they mean), and
`<module>.outputs` [heads] where outputs are scaled. Metadata: JSON under the key `strop.edge` with the format, the
form, the modules in the model's order, its architecture and fingerprint, how the edge was made, its figures, and
a SHA-256 over all of that and the tensors. A file that is damaged, cut off, foreign or of a newer format is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from strop._checks import require
from strop.calibration.forms import FORMS
from strop.errors import DamagedFileError, EdgeFileError
from strop.records import atomic_path

FORMAT = 1
KEY = "strop.edge"
HALVES = ("numbers", "outputs")

Halves = dict[str, dict[str, Tensor]]


def write_edge(path: Path, about: Mapping[str, Any], halves: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Write an edge, atomically."""
    from safetensors.torch import save_file

    tensors = _flat(halves)
    whole = json.loads(_text({"format": FORMAT, **about}))
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={KEY: _text(whole | {"sha256": _digest(whole, tensors)})})


def read_edge(path: Path) -> tuple[dict[str, Any], Halves]:
    """Return what was written, or raise."""
    about, tensors = _open(path)
    remedy = "Copy it again, or calibrate again"
    digest = about.pop("sha256", None)
    same = digest == _digest(about, tensors)
    require(same, f"{path} must be as it was written", "a changed file", remedy, DamagedFileError)
    form = about.get("form")
    require(form in FORMS, f"{path} must have a known form", repr(form), "Update strop", EdgeFileError)
    halves: Halves = {half: {} for half in HALVES}
    for key, tensor in tensors.items():
        name, _, half = key.rpartition(".")
        halves[half][name] = tensor
    return about, halves


def _open(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    require(path.is_file(), f"{path} must be an edge", "no such file", "Make one with strop calibrate", EdgeFileError)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise DamagedFileError(
            f"{path} must be a whole safetensors file, got: {error}. Copy it or calibrate again."
        ) from error
    return _about(path, metadata), tensors


def _about(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    foreign = "Give the file that strop calibrate wrote"
    require(KEY in metadata, f"{path} must be an edge", "other safetensors", foreign, EdgeFileError)
    try:
        about = dict(json.loads(metadata[KEY]))
        number = int(about["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(f"{path} must describe itself, got damaged text. Copy it or calibrate again.") from error
    rule = f"{path} must have format {FORMAT} or older"
    require(number <= FORMAT, rule, f"{number}: a newer strop wrote it", "Update strop", EdgeFileError)
    return about


def digest_of(halves: Mapping[str, Mapping[str, Tensor]], form: str) -> str:
    """Return a short checksum of an edge's numbers and form, whatever its figures say."""
    return _digest({"form": form}, _flat(halves))[:16]


def _flat(halves: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {
        f"{name}.{half}": tensor.detach().float().cpu().contiguous()
        for half, named in halves.items()
        for name, tensor in named.items()
    }


def _digest(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(_text(about).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _text(about: Mapping[str, Any]) -> str:
    return json.dumps(about, sort_keys=True, ensure_ascii=False)
