"""Which tensors of a GGUF file are a model's query and output projections, and in which order their rows are.

Nothing is taken on trust: the file's numbers must be the model's, rounded to the file's own grids (gguf_likeness.py).
This also tells the rows' order.
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
from strop.exporting.gguf_likeness import measure_change
from strop.patching.layout import is_transposed, offset_of
from strop.pretrained.gguf_head import Array, TensorInGGUF

QUERIES = ("attn_q", "attn_q_b", "attn_qkv")
CHANGE = 0.01
"""By which share of their size weights may have been changed before they were rounded: more than by a copy in
Q8_0 on the way. Less than this, in attention weights, is not told from quantisation."""

LIKE = 0.5
"""How far apart rows of one order may be, as a share of their length; two bits a weight lose much."""


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
    order, far = _match_rows(file.tensors[query], place, rule)
    far = max(far, _distance(file.tensors[output], _weight(place.output), _slack(place.output), rule))
    norm = None
    if place.norm is not None:
        norm = f"{prefix}attn_q_norm.weight"
        require(norm in file.tensors, rule, f"no {norm}", error=EdgeError)
        own = _norm(place)[order[: place.norm.numel()]]
        far = max(far, _distance(file.tensors[norm], own, _slack(place.layout.query_norm), rule))
    return Layer(query, output, norm, order, far)


def _match_rows(tensor: TensorInGGUF, place: Placement, rule: str) -> tuple[Array, float]:
    """The order of rows by which the file's are most like the model's, and how far they are apart."""
    heads = place.layout.heads
    own = place.query.weight(heads).detach().flatten(0, 1).float().cpu().numpy()
    size = len(own) // heads
    orders = [np.arange(size)] + ([np.arange(size).reshape(2, -1).T.flatten()] if size % 2 == 0 else [])
    whole = [(np.arange(heads)[:, None] * size + order).flatten() for order in orders]
    rows = tensor._replace(data=tensor.data[: len(own)])
    numbers = read_numbers(rows.data, rows.kind)
    require(numbers.shape == own.shape, rule, f"a tensor of shape {numbers.shape}", error=EdgeError)
    best = whole[int(np.argmin([_share(numbers - own[order], own) for order in whole]))]
    return best, _distance(rows, own[best], _slack(place.query.layer), rule)


def _distance(tensor: TensorInGGUF, own: Array, slack: float, rule: str) -> float:
    """How far a tensor is from the model's numbers; raise where they were other ones before they were rounded."""
    numbers = read_numbers(tensor.data, tensor.kind)
    numbers = numbers.reshape(own.shape) if numbers.size == own.size else numbers
    require(numbers.shape == own.shape, rule, f"a tensor of shape {numbers.shape}", error=EdgeError)
    distance, change = _share(numbers - own, own), measure_change(own, tensor.data, tensor.kind, slack)
    actual = f"weights that differ by {100 * max(change, distance * (distance > LIKE)):.1f} % before their rounding"
    remedy = "A model that was trained on is another one. Give the file that was made from this model"
    require(
        change < CHANGE and distance < LIKE, rule, f"{actual} ({tensor.name}, {tensor.kind.name})", remedy, EdgeError
    )
    return distance


def _slack(layer: Any) -> float:
    """The rounding of a layer's own numbers, where it is coarse."""
    dtype: torch.dtype = layer.weight.dtype
    return 0.0 if dtype == torch.float32 else torch.finfo(dtype).eps / 2


def _share(part: Array, whole: Array) -> float:
    return float(np.linalg.norm(part) / max(float(np.linalg.norm(whole)), 1e-30))


def _norm(place: Placement) -> Array:
    norm: Any = place.layout.query_norm
    whole: torch.Tensor = norm.weight.detach() + offset_of(norm)
    return whole.flatten().float().cpu().numpy()


def _weight(layer: Any) -> Array:
    weight: torch.Tensor = layer.weight.detach().float()
    found: Array = (weight.T if is_transposed(layer) else weight).cpu().numpy()
    return found


def find_layers(file: GGUFFile, places: Mapping[str, Placement]) -> dict[str, Layer]:
    """Return attention module → where a GGUF file keeps its weights."""
    return {name: find_layer(file, name, place) for name, place in places.items()}
