"""A sharpened GGUF file: the edge in the block scales of the query and output tensors, the rest as it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from strop._checks import require
from strop.edges.place import Placement
from strop.errors import EdgeError
from strop.exporting.gguf_blocks import FLOATS, Stored, read_numbers, scale_numbers, store_numbers
from strop.exporting.gguf_file import GGUFFile
from strop.exporting.gguf_layers import Layer, find_layers
from strop.exporting.job import Job
from strop.exporting.new_files import new_file
from strop.exporting.plan import Plan, describe_edge
from strop.pretrained.gguf_head import Array


def plan_gguf(job: Job) -> Plan:
    """Return the plan of a sharpened GGUF file; the tensors that change are made now."""
    file, layers = job.gguf, find_layers(job.gguf, job.places)
    changed = {name: one for module, place in job.places.items() for name, one in _change(file, layers[module], place)}

    def put(path: Path) -> None:
        with new_file(path) as temporary:
            file.write(temporary, changed, describe_edge(job.edge))

    far = max(layer.distance for layer in layers.values())
    lines = (
        [f"the file's attention weights differ by {100 * far:.1f} % from the model's, by quantisation"] if far else []
    )
    exact, rounded = _tell(file, changed)
    return Plan("gguf", job.out, exact, (*rounded, *lines), (), put)


def _change(file: GGUFFile, layer: Layer, place: Placement) -> Iterator[tuple[str, Stored]]:
    """Every tensor of a layer that changes."""
    if place.low_rank is not None:
        yield layer.query, _edited(file, layer, place, place.low_rank)
    elif place.rows is not None:
        yield layer.query, _scaled(file, layer.query, rows=_pad(place.rows, layer.order, file, layer.query))
    bias = layer.query.replace(".weight", ".bias")
    if place.rows is not None and place.query.layer.bias is not None:
        require(bias in file.tensors, f"{file.path} must hold {bias}", "none", error=EdgeError)
        yield bias, _scaled(file, bias, columns=_pad(place.rows, layer.order, file, bias))
    if place.norm is not None and layer.norm is not None:
        factors = _numpy(place.norm.flatten())[layer.order[: place.norm.numel()]]
        yield layer.norm, _scaled(file, layer.norm, columns=factors)
    if place.columns is not None:
        yield layer.output, _scaled(file, layer.output, columns=_numpy(place.columns))


def _scaled(file: GGUFFile, name: str, rows: Array | None = None, columns: Array | None = None) -> Stored:
    tensor = file.tensors[name]
    return scale_numbers(tensor.data, tensor.kind, rows, columns)


def _edited(file: GGUFFile, layer: Layer, place: Placement, edit: tuple[Tensor, Tensor]) -> Stored:
    """The query's tensor with a low-rank edit: new numbers, so stored anew."""
    tensor = file.tensors[layer.query]
    numbers = read_numbers(tensor.data, tensor.kind).astype(np.float64)
    numbers[: len(layer.order)] += _numpy(edit[0] @ edit[1])[layer.order]
    if place.rows is not None:
        numbers *= _pad(place.rows, layer.order, file, layer.query)[:, None]
    return store_numbers(numbers, tensor.kind if tensor.kind in FLOATS else None)


def _pad(factors: Tensor, order: Array, file: GGUFFile, name: str) -> Array:
    """Factors of the query's rows in the file's order, and ones for what follows them in a fused tensor."""
    whole = np.ones(int(file.tensors[name].shape[-1]))
    whole[: len(order)] = _numpy(factors)[order]
    return whole


def _numpy(values: Tensor) -> Array:
    found: Array = values.double().cpu().numpy()
    return found


def _tell(file: GGUFFile, changed: Mapping[str, Stored]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What holds exactly and what to rounding: a line for each kind of tensor and change of format."""
    groups: dict[tuple[str, str, str], list[Stored]] = defaultdict(list)
    for name, one in changed.items():
        part = name.split(".", 2)[2]
        groups[part, file.tensors[name].kind.name, one.kind.name].append(one)
    exact, rounded = [], []
    for (part, before, after), found in groups.items():
        worst = max(one.rounding for one in found)
        if before != after:
            rounded.append(f"{part} × {len(found)}: {before} cannot hold it, stored as {after}, off by {worst:.1e}")
        elif before == "F32":
            exact.append(f"{part} × {len(found)} (F32)")
        else:
            rounded.append(f"{part} × {len(found)}: {before} as before, rounded by {worst:.1e} at most")
    return tuple(exact), tuple(rounded)
