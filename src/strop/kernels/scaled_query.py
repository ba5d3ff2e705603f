"""β known before any logit is formed: a scaled query and torch's own attention, on every device and dtype.

    softmax(β·(scale·q·kᵀ + bias))·v  =  attention of (β·q, k, v) with β·bias as its mask

One call, two products, as plain attention has them, with torch's gradients, dropout and compilation. One number β for
all rows goes into the scale and rounds nothing. A β by head or row multiplies the query in float32, which then has the
inputs' dtype again; on the CPU all stays in float32, whose kernel is the more exact one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from strop.kernels.implementation import Implementation
from strop.kernels.plain import TorchMask, attend_plainly, attend_to_nothing
from strop.kernels.request import Request
from strop.kernels.shapes import four_dimensional, four_dimensional_mask
from strop.kernels.tracing import is_transformed
from strop.normalisers import Temperature
from strop.normalisers.fusion import ConstantBeta, CountBeta
from strop.sharpness import RowStats, upcast


class ScaledQuery(Implementation):
    """One call of torch's function."""

    def find_obstacle(self, request: Request) -> str | None:
        """Say what one call of torch's function cannot express."""
        normaliser = request.normaliser
        if not isinstance(normaliser.fusion(), ConstantBeta | CountBeta):
            return f"{type(normaliser).__name__} has no β that is known before the logits"
        assert isinstance(normaliser, Temperature)
        if normaliser.sink() is not None:
            return "torch's attention does not tell the log-sum-exp that a sink needs"
        if request.softcap is not None:
            return "soft-capped logits are not a product of query and key"
        if request.return_stats:
            return "torch's attention tells no statistics"
        if is_transformed():
            return "torch's fused kernels have no rules for torch.func's transforms"
        if request.mask.bias is not None and not _keeps_size(request, request.mask.bias):
            return "scaling the additive bias by row would make it larger"
        return _find_obstacle_on_cpu(request) if request.query.device.type == "cpu" else None

    def run(self, request: Request) -> tuple[Tensor, None]:
        """Attend."""
        query = request.query
        if query.numel() == 0 or request.value.numel() == 0:
            return attend_to_nothing(request), None
        dtype, factor = _dtype_of(query), _find_factor(request)
        tempered, beta = _temper(request) if factor is None else (four_dimensional(query), factor)
        scale = request.scale * (factor or 1.0)
        bias = None if request.mask.bias is None else four_dimensional_mask(upcast(request.mask.bias), query) * beta
        bias = None if bias is None else bias.to(dtype)
        return attend_plainly(request, TorchMask.of(request), tempered.to(dtype), scale, bias), None


implementation = ScaledQuery()


def _find_factor(request: Request) -> float | None:
    """Return β where it is one number for the scale: above 0, since some kernels compare logits before they scale."""
    fusion = request.normaliser.fusion()
    if not isinstance(fusion, ConstantBeta) or request.normaliser.changes_query:
        return None
    return fusion.beta if fusion.beta > 0 else None


def _temper(request: Request) -> tuple[Tensor, Tensor]:
    """Return the query [b, h, n_q, d] times β, and β itself, broadcastable to [b, h, n_q, 1], in float32 or better."""
    query, normaliser = request.query, request.normaliser
    assert isinstance(normaliser, Temperature)
    counts = normaliser.uses == "n_keys" or normaliser.changes_query
    n_keys = request.n_keys if counts else torch.full((1,), request.n_k, device=query.device)
    prepared = four_dimensional(normaliser.prepare_query(upcast(query), n_keys))
    n_keys = n_keys.expand(query.shape[:-1]).reshape(prepared.shape[:-1]) if counts else n_keys
    beta = normaliser.inverse_temperature(RowStats.of_counts(n_keys, prepared.dtype))[..., None]
    return prepared * beta, beta


def _dtype_of(query: Tensor) -> torch.dtype:
    """What to compute in: the CPU's kernel is better in float32, those of other devices add up in float32 anyway."""
    return upcast(query).dtype if query.device.type == "cpu" else query.dtype


def _keeps_size(request: Request, bias: Tensor) -> bool:
    """Whether β·bias is no larger than the bias: β is one number, or the bias has every row, and every head of β."""
    if isinstance(request.normaliser.fusion(), ConstantBeta):
        return True
    by_head = request.normaliser.heads is None or (bias.ndim > 2 and bias.shape[-3] == request.n_heads)
    return by_head and bias.ndim > 1 and bias.shape[-2] == request.n_q


def _find_obstacle_on_cpu(request: Request) -> str | None:
    """There, what torch has no fused kernel for is better done a block of rows at a time."""
    if request.dropout_p:
        return "torch's fused kernel has no dropout on the CPU"
    if request.mask.bias is not None and request.mask.bias.requires_grad:
        return "torch's fused kernel has no gradient of the bias on the CPU"
    if not request.finite:
        return "torch's fused kernel does not keep a NaN or inf to the rows that may see it"
    return None
