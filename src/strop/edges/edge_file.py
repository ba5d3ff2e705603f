"""The file of an edge: safetensors, never pickle.

Tensors: for every attention module the numbers of the edge's parts, `<module>.<field>`: `numbers` of a temperature,
`pairs` and `index` or `up` and `down` of an edit of the query, `outputs` where outputs are scaled. Metadata: JSON under
the key `strop.edge` with the format, the form, the modules and their heads in the model's order, its architecture and
fingerprint, how the edge was made, its figures, and a SHA-256 over all of that and the tensors. A file that is damaged,
cut off, foreign or of a newer format is refused.
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
from strop.edges.edge import Edge
from strop.edges.forms import read_form
from strop.edges.output_scales import OutputScales
from strop.edges.part import Part
from strop.edges.parts import PARTS
from strop.errors import DamagedFileError, EdgeFileError, StropError
from strop.records.tensors import read_tensors, write_tensors

FORMAT = 1
KEY = "strop.edge"


def write_edge(edge: Edge, path: Path) -> None:
    """Write an edge, atomically."""
    about = {key: getattr(edge, key) for key in ("form", "architecture", "fingerprint", "made", "figures")}
    heads = {"modules": list(edge.heads_of), "heads": list(edge.heads_of.values())}
    tensors = _tensors(edge)
    whole = json.loads(_text({"format": FORMAT, **about, **heads}))
    write_tensors(path, tensors, {KEY: _text(whole | {"sha256": _digest(whole, tensors)})})


def read_edge(path: Path) -> Edge:
    """Return what was written, or raise."""
    about, tensors = _open(path)
    digest = about.pop("sha256", None)
    same = digest == _digest(about, tensors)
    rule, remedy = f"{path} must be as it was written", "Copy it again, or calibrate again"
    require(same, rule, "a changed file", remedy, DamagedFileError)
    try:
        terms = read_form(str(about.get("form")))
    except StropError as error:
        raise EdgeFileError(f"{path} must have a known form, got {about.get('form')!r}. Update strop.") from error
    parts = {term: _read_part(PARTS[term], about["modules"], tensors) for term in (*terms, OutputScales.term)}
    heads = about.get("heads") or [len(tensors[f"{name}.numbers"]) for name in about["modules"]]
    return Edge(
        parts={term: named for term, named in parts.items() if named},
        heads_of=dict(zip(about["modules"], heads, strict=True)),
        architecture=about["architecture"],
        fingerprint=about["fingerprint"],
        made=about["made"],
        figures=tuple(about["figures"]),
    )


def _read_part(kind: type[Part], modules: list[str], tensors: Mapping[str, Tensor]) -> dict[str, Part]:
    """Return attention module → its part, of those modules that have one."""
    keys = {name: [f"{name}.{field}" for field in kind.fields] for name in modules}
    return {name: kind(*(tensors[key] for key in own)) for name, own in keys.items() if own[0] in tensors}


def _tensors(edge: Edge) -> dict[str, Tensor]:
    return {
        f"{name}.{field}": (tensor.float() if tensor.is_floating_point() else tensor).cpu().contiguous()
        for named in edge.parts.values()
        for name, part in named.items()
        for field, tensor in part.tensors().items()
    }


def _open(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    require(path.is_file(), f"{path} must be an edge", "no such file", "Make one with strop calibrate", EdgeFileError)
    tensors, metadata = read_tensors(path, "Copy it or calibrate again")
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


def digest_of(edge: Edge) -> str:
    """Return a short checksum of an edge's numbers and form, whatever its figures say."""
    return _digest({"form": edge.form}, _tensors(edge))[:16]


def _digest(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(_text(about).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _text(about: Mapping[str, Any]) -> str:
    return json.dumps(about, sort_keys=True, ensure_ascii=False)
