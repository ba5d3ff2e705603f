"""Which tensors of a GGUF file are a model's query and output projections, and in which order their rows are.

Nothing is taken on trust: the file's numbers must be the model's, up to quantisation. This also tells the rows' order.
Converters of the Llama type put the two dimensions that a rotation turns together side by side (2i, 2i + 1) where
transformers has them half a head apart (i, i + d/2); others keep them. Fused projections hold all queries first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from strop._checks import require
from strop.edges.place import Placement
from strop.errors import EdgeError
from strop.exporting.gguf_blocks import read_numbers
from strop.exporting.gguf_file import GGUFFile
from strop.patching.layout import is_transposed, offset_of
from strop.pretrained.gguf_head import Array

QUERIES = ("attn_q", "attn_q_b", "attn_qkv")
LIKENESS = 0.35
"""How far a file's numbers may be from the model's, as a share of their length: two bits a weight lose about 0.3."""


class Layer(NamedTuple):
    """The names of one layer's tensors in a file, and which of the model's rows each of the query's rows is."""

    query: str
    output: str
    norm: str | None
    order: Array
    distance: float


def find_layer(file: GGUFFile, name: str, place: Placement) -> Layer:
    """Return where a GGUF file keeps the weights of an attention module, or raise if they are not there."""
    number = re.findall(r"\.(\d+)\.", f".{name}.")
    prefix = f"blk.{number[0] if number else 0}."
    known = [f"{prefix}{part}.weight" for part in QUERIES if f"{prefix}{part}.weight" in file.tensors]
    rule = f"{file.path} must hold the query and output weights of {name}"
    there = bool(known) and f"{prefix}attn_output.weight" in file.tensors
    require(place.layout.query is not None, rule, "a model whose query weights are not known here", error=EdgeError)
    require(there, rule, f"no such tensors in blk.{prefix[4:-1]} of {file.architecture}", error=EdgeError)
    query, output = known[0], f"{prefix}attn_output.weight"
    order, far = _match_rows(_numbers(file, query), place, rule)
    far = max(far, _distance(_numbers(file, output), _weight(place.output), rule))
    norm = None
    if place.norm is not None:
        norm = f"{prefix}attn_q_norm.weight"
        far = max(far, _distance(_norm_numbers(file, norm, rule), _norm(place)[order[: place.norm.numel()]], rule))
    return Layer(query, output, norm, order, far)


def _match_rows(found: Array, place: Placement, rule: str) -> tuple[Array, float]:
    """The order of rows by which the file's are most like the model's, and how far they are apart."""
    heads = place.layout.heads
    own = place.query.weight(heads).detach().flatten(0, 1).float().numpy()
    size = len(own) // heads
    orders = [np.arange(size)] + ([np.arange(size).reshape(2, -1).T.flatten()] if size % 2 == 0 else [])
    whole = [(np.arange(heads)[:, None] * size + order).flatten() for order in orders]
    rows = found[: len(own)]
    require(rows.shape == own.shape, rule, f"a tensor of shape {rows.shape}", error=EdgeError)
    distances = [_share(rows - own[order], own) for order in whole]
    best = int(np.argmin(distances))
    _refuse_distance(distances[best], rule)
    return whole[best], distances[best]


def _distance(found: Array, own: Array, rule: str) -> float:
    require(found.shape == own.shape, rule, f"a tensor of shape {found.shape}", error=EdgeError)
    distance = _share(found - own, own)
    _refuse_distance(distance, rule)
    return distance


def _refuse_distance(distance: float, rule: str) -> None:
    actual = f"weights that differ by {100 * distance:.0f} %"
    require(distance < LIKENESS, rule, actual, "Give the file that was made from this model", EdgeError)


def _share(part: Array, whole: Array) -> float:
    return float(np.linalg.norm(part) / max(float(np.linalg.norm(whole)), 1e-30))


def _numbers(file: GGUFFile, name: str) -> Array:
    tensor = file.tensors[name]
    return read_numbers(tensor.data, tensor.kind)


def _norm_numbers(file: GGUFFile, name: str, rule: str) -> Array:
    require(name in file.tensors, rule, f"no {name}", error=EdgeError)
    return _numbers(file, name).flatten()


def _norm(place: Placement) -> Array:
    norm: Any = place.layout.query_norm
    whole: torch.Tensor = norm.weight.detach() + offset_of(norm)
    return whole.flatten().float().numpy()


def _weight(layer: Any) -> Array:
    weight: torch.Tensor = layer.weight.detach().float()
    found: Array = (weight.T if is_transposed(layer) else weight).numpy()
    return found


def find_layers(file: GGUFFile, places: Mapping[str, Placement]) -> dict[str, Layer]:
    """Return attention module → where a GGUF file keeps its weights."""
    return {name: find_layer(file, name, place) for name, place in places.items()}
