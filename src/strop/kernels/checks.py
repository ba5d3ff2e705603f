"""What the door asks of a call before anything runs. Every message says the rule, what was given and what to do."""

from __future__ import annotations

from torch import Tensor

from strop._checks import require, require_number
from strop.errors import ArgumentError, ArgumentTypeError
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.kernels.shapes import may_look
from strop.normalisers import Normaliser


def check_tensors(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    """Raise unless query, key and value can attend to each other."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(f"{name} must be a tensor, got {type(tensor).__name__}.")
        if not tensor.is_floating_point():
            raise ArgumentTypeError(f"{name} must be floating point, got {tensor.dtype}. Use {name}.float().")
        if tensor.ndim < 2:
            raise ArgumentError(f"{name} must have at least 2 dimensions [n, d], got {tuple(tensor.shape)}.")
        if tensor.dtype != query.dtype:
            raise ArgumentTypeError(f"{name} must be {query.dtype} as the query is, got {tensor.dtype}.")
        if tensor.device != query.device:
            raise ArgumentError(f"{name} must be on {query.device} as the query is, got {tensor.device}.")
        if tensor.ndim != query.ndim:
            raise ArgumentError(f"{name} must have the query's {query.ndim} dimensions, got {tuple(tensor.shape)}.")
    if query.shape[:-2] != key.shape[:-2] or query.shape[-1] != key.shape[-1] or key.shape[:-1] != value.shape[:-1]:
        _check_sizes(query, key, value, enable_gqa)


def check_rule(request: Request) -> None:
    """Raise unless the numbers make sense and the normaliser fits the tensors and the mask."""
    if not 0.0 <= request.dropout_p <= 1.0:
        raise ArgumentError(f"dropout_p must lie in [0, 1], got {request.dropout_p}.")
    if not request.scale >= 0:
        scale = require_number("scale", request.scale)
        remedy = "A negative scale would turn the order of the keys round"
        raise ArgumentError(f"scale must be at least 0, got {scale}. {remedy}.")
    if request.softcap is not None:
        require_number("softcap", request.softcap, above=0)
    _check_normaliser(request.normaliser, request.query)
    if request.mask.bias is not None and not request.normaliser.additive:
        _check_bias(request.normaliser, request.mask)


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    width, rows, batch = query.shape[-1], tuple(key.shape[:-1]), tuple(query.shape[:-2])
    require(key.shape[-1] == width, f"key must have the query's head size {width}", key.shape[-1])
    require(
        tuple(value.shape[:-1]) == rows, f"value must have the key's {rows} before its last size", tuple(value.shape)
    )
    if not enable_gqa or query.ndim == 2:
        remedy = "Fewer key heads than query heads need enable_gqa=True"
        require(rows[:-1] == batch, f"key must have the query's batch and heads {batch}", rows[:-1], remedy)
        return
    require(rows[:-2] == batch[:-1], f"key must have the query's batch {batch[:-1]}", rows[:-2])
    divides = rows[-2] > 0 and batch[-1] % rows[-2] == 0
    require(divides, f"key heads must divide the {batch[-1]} query heads", rows[-2])


def _check_normaliser(normaliser: Normaliser, query: Tensor) -> None:
    kind = type(normaliser).__name__
    if not isinstance(normaliser, Normaliser):
        raise ArgumentTypeError(f"normaliser must be a Normaliser or a name, got {kind}.")
    if normaliser.heads is not None:
        fits = query.ndim > 2 and query.shape[-3] == normaliser.heads
        require(fits, f"query must have {normaliser.heads} heads as {kind} has", tuple(query.shape))


def _check_bias(normaliser: Normaliser, mask: Mask) -> None:
    nothing = mask.bias is not None and may_look(mask.bias) and not mask.adds
    remedy = "Hide keys by a bool mask, or by −inf beside 0"
    require(nothing, f"attn_mask must add nothing under {type(normaliser).__name__}", "numbers to add", remedy)
