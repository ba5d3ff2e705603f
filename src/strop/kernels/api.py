"""`attention`: torch's scaled_dot_product_attention with a choice of normaliser, and with row statistics.

Implementations, by name:

    reference     the definition, O(n_q·n_k) memory; every normaliser, every device
    streaming     the definition in blocks of rows, O(n·block) memory; every row-wise normaliser, every device
    fused_calls   the temperature family by two calls of torch's fused CPU kernel, O(n) memory
    native        one C++ kernel for the CPU: the temperature family, sparsemax and 1.5-entmax, with row statistics

`impl="auto"` takes the first of native, fused_calls, streaming, reference that can run the call; where gradients are
wanted fused_calls comes first, whose backward pass is torch's own and faster. Asking for one by name runs that one or
raises with the reason. All agree with `reference` to rounding error.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Literal, overload

import torch
from torch import Tensor

from strop._checks import require, require_known, require_number
from strop.kernels import fused_calls, native, reference, streaming
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.normalisers import Normaliser, Softmax, by_name
from strop.sharpness import RowStats

IMPLEMENTATIONS: dict[str, ModuleType] = {
    "native": native,
    "fused_calls": fused_calls,
    "streaming": streaming,
    "reference": reference,
}
"""In the order in which `auto` tries them."""
PLAIN_ONLY = ("native", "fused_calls")
"""Those that form the logits in code of their own: they know nothing of `prepare_key` and `weights_of`."""


@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *,
    normaliser: Normaliser | str | None = None, softcap: float | None = None, impl: str = "auto",
    return_stats: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *,
    normaliser: Normaliser | str | None = None, softcap: float | None = None, impl: str = "auto",
    return_stats: Literal[True],
) -> tuple[Tensor, RowStats]: ...  # fmt: skip
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    normaliser: Normaliser | str | None = None,
    softcap: float | None = None,
    impl: str = "auto",
    return_stats: bool = False,
) -> Tensor | tuple[Tensor, RowStats]:
    """Attend from query [*batch, n_q, d] to key [*batch, n_k, d] and value [*batch, n_k, d_v].

    Every argument that torch's function has means what it means there. `normaliser` is an object or a name (default:
    softmax). `softcap` bounds the logits as cap·tanh(logits/cap) before the mask. With `return_stats` the result is
    (out, RowStats), the statistics of each row's raw logits, before any temperature. A row that may see no key gives
    zeros.
    """
    normaliser = by_name(normaliser) if isinstance(normaliser, str) else normaliser or Softmax()
    _check_tensors(query, key, value, enable_gqa)
    _check_normaliser(normaliser, query)
    require(0.0 <= dropout_p <= 1.0, "dropout_p must lie in [0, 1]", dropout_p)
    scale = 1.0 / math.sqrt(max(1, query.shape[-1])) if scale is None else require_number("scale", scale)
    require(
        scale >= 0,
        "scale must be at least 0",
        scale,
        "A negative scale would turn the order of the keys round",
    )
    softcap = None if softcap is None else require_number("softcap", softcap, above=0)
    mask = Mask.of(attn_mask, is_causal, query, key)
    _check_bias(normaliser, mask)
    request = Request(query, key, value, mask, scale, normaliser, softcap, dropout_p, return_stats)
    out, stats = _choose(impl, request).run(request)
    return (out, stats) if return_stats else out


def _choose(impl: str, request: Request) -> ModuleType:
    require_known("impl", impl, ("auto", *IMPLEMENTATIONS))
    for name in _order(request) if impl == "auto" else (impl,):
        module = IMPLEMENTATIONS[name]
        reason = _not_plain(name, request.normaliser) or module.reason_not(request)
        if reason is None:
            return module
    raise ValueError(
        f"impl={impl!r} cannot run this call: {reason}. Use impl='auto' or another of {', '.join(IMPLEMENTATIONS)}."
    )


def _order(request: Request) -> list[str]:
    """In which order `auto` tries them."""
    trains = native.wants_gradient(request)
    return sorted(IMPLEMENTATIONS, key=lambda name: trains and name != "fused_calls")


def _not_plain(impl: str, normaliser: Normaliser) -> str | None:
    if impl not in PLAIN_ONLY or normaliser.plain:
        return None
    return f"{type(normaliser).__name__} changes the keys or reads the query, which {impl} does not know of"


def _check_tensors(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        require(isinstance(tensor, Tensor), f"{name} must be a tensor", type(tensor).__name__, error=TypeError)
        require(
            tensor.is_floating_point(), f"{name} must be floating point", tensor.dtype, f"Use {name}.float()", TypeError
        )
        require(tensor.ndim >= 2, f"{name} must have at least 2 dimensions [n, d]", tuple(tensor.shape))
        require(
            tensor.dtype == query.dtype, f"{name} must be {query.dtype} as the query is", tensor.dtype, error=TypeError
        )
        require(tensor.device == query.device, f"{name} must be on {query.device} as the query is", tensor.device)
        require(tensor.ndim == query.ndim, f"{name} must have the query's {query.ndim} dimensions", tuple(tensor.shape))
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
    require(isinstance(normaliser, Normaliser), "normaliser must be a Normaliser or a name", kind, error=TypeError)
    if normaliser.heads is not None:
        fits = query.ndim > 2 and query.shape[-3] == normaliser.heads
        require(fits, f"query must have {normaliser.heads} heads as {kind} has", tuple(query.shape))


def _check_bias(normaliser: Normaliser, mask: Mask) -> None:
    if normaliser.additive or mask.bias is None:
        return
    nothing = not torch.compiler.is_compiling() and not bool((mask.bias != 0).any())
    remedy = "Hide keys by a bool mask, or by −inf beside 0"
    require(nothing, f"attn_mask must add nothing under {type(normaliser).__name__}", "numbers to add", remedy)
