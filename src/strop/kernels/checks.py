"""What the door asks of the rule and its numbers before anything runs; `fit` asks the tensors.

Every message says the rule, what was given and what to do.
"""

from __future__ import annotations

from torch import Tensor

from strop._checks import require, require_number
from strop.errors import ArgumentError, ArgumentTypeError
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.normalisers import Normaliser


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


def _check_normaliser(normaliser: Normaliser, query: Tensor) -> None:
    kind = type(normaliser).__name__
    if not isinstance(normaliser, Normaliser):
        raise ArgumentTypeError(f"normaliser must be a Normaliser or a name, got {kind}.")
    if normaliser.heads is not None:
        fits = query.ndim > 2 and query.shape[-3] == normaliser.heads
        require(fits, f"query must have {normaliser.heads} heads as {kind} has", tuple(query.shape))


def _check_bias(normaliser: Normaliser, mask: Mask) -> None:
    nothing = not mask.adds
    remedy = "Hide keys by a bool mask, or by −inf beside 0"
    require(nothing, f"attn_mask must add nothing under {type(normaliser).__name__}", "numbers to add", remedy)
