"""Attention of a block of query rows with all its logits in memory: the formula itself.

    q, k   = as the normaliser prepares them
    logits = scale·q·kᵀ, soft-capped as cap·tanh(logits/cap) where asked, plus bias
    out    = dropout(normaliser.weights_of(q, logits, keep)) · v

`reference` is one such block, `streaming` many. Everything is computed in float32 or better.
A key that a row may not see contributes exactly nothing to it, even where its value is NaN or infinite (`careful`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from strop._types import Keep, Weights
from strop.kernels.request import Request
from strop.sharpness import RowStats


def block(request: Request, *, careful: bool) -> tuple[Tensor, RowStats | None]:
    """Attend from all rows of a request to all its keys; key and value have the query's heads."""
    query, key, value, mask, scale, normaliser, softcap, dropout_p, return_stats = request
    keep = mask.dense(request.n_q, request.n_k, query.device)
    query = normaliser.prepare_query(query, request.n_keys)
    logits = (query * scale) @ normaliser.prepare_key(key).mT
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    if mask.bias is not None:
        logits = logits + mask.bias.to(logits.dtype)
    weights = normaliser.weights_of(query, logits, keep)
    stats = RowStats.of(logits, keep) if return_stats else None
    weights = F.dropout(weights, dropout_p) if dropout_p else weights
    return (_careful_sum(weights, value, keep) if careful else weights @ value), stats


def _careful_sum(weights: Weights, value: Tensor, keep: Keep | None) -> Tensor:
    """weights·value in which NaN and ±inf reach just the rows that may see them (0·NaN would reach all)."""
    if keep is None:
        return weights @ value
    sees = keep.expand(torch.broadcast_shapes(keep.shape, weights.shape)).to(value.dtype)
    out = weights @ torch.where(value.isfinite(), value, 0.0)
    for strange, is_it in (
        (torch.inf, value.isposinf()),
        (-torch.inf, value.isneginf()),
        (torch.nan, value.isnan()),
    ):
        out = torch.where(sees @ is_it.to(value.dtype) > 0, out + strange, out)
    return out
