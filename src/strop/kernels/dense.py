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

from strop._types import Keep, Logits, Weights
from strop.kernels.request import Request
from strop.sharpness import RowStats


def form_logits(query: Tensor, key: Tensor, scale: float, softcap: float | None, bias: Tensor | None) -> Logits:
    """Return the logits [*batch, n_q, n_k] of query [*batch, n_q, d] and key [*batch, n_k, d], hidden keys included."""
    logits = (query * scale) @ key.mT
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    return logits if bias is None else logits + bias.to(logits.dtype)


def form_weights(request: Request) -> tuple[Weights, Logits, Keep | None]:
    """Return the weights of all rows, the logits they came from and what may be seen; key has the query's heads."""
    keep = request.mask.dense(request.n_q, request.n_k, request.query.device)
    normaliser, mask = request.normaliser, request.mask
    query = normaliser.prepare_query(request.query, request.n_keys)
    key = normaliser.prepare_key(request.key)
    logits = form_logits(query, key, request.scale, request.softcap, mask.bias)
    return normaliser.weights_of(query, logits, keep), logits, keep


def draw_dropout(query: Tensor, n_k: int, share: float) -> Keep | None:
    """Draw which weights of all rows stay when a share of them is dropped; None where none is."""
    if not share:
        return None
    return F.dropout(torch.ones(*query.shape[:-1], n_k, dtype=query.dtype, device=query.device), share) > 0


def attend_block(request: Request, *, careful: bool, kept: Keep | None) -> tuple[Tensor, RowStats | None]:
    """Attend from all rows of a request to all its keys; key and value have the query's heads.

    `careful` keeps NaN and infinite values to the rows that may see them. `kept` is what dropout leaves.
    """
    weights, logits, keep = form_weights(request)
    stats = RowStats.of(logits, keep) if request.return_stats else None
    if kept is not None:
        weights = weights * kept / max(1.0 - request.dropout_p, torch.finfo(weights.dtype).tiny)
    return (careful_sum(weights, request.value, keep) if careful else weights @ request.value), stats


def careful_sum(weights: Weights, value: Tensor, keep: Keep | None) -> Tensor:
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
