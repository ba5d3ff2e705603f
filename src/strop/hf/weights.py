"""The dense weights of one call, for the few places that are asked for them: n×n, so never in a probe."""

from __future__ import annotations

import torch
from torch import Tensor

from strop.hf.calls import Call
from strop.hf.masks import LazyMask, joined, triangle
from strop.normalisers import Normaliser


def dense_logits(call: Call) -> tuple[Tensor, Tensor | None]:
    """Return the logits [B, H, n_q, n_k] of a call and the mask of what may be seen."""
    key = call.key.repeat_interleave(call.n_heads // call.key.shape[-3], -3)
    logits = call.logit_scale * call.query @ key.mT
    if call.softcap is not None:
        logits = call.softcap * torch.tanh(logits / call.softcap)
    mask = call.mask.rows(0, call.query.shape[-2]) if isinstance(call.mask, LazyMask) else call.mask
    mask = joined(triangle(call.query, call.key) if call.causal else mask, call.bias)
    if mask is None or mask.dtype == torch.bool:
        return logits, mask
    keep = mask > torch.finfo(mask.dtype).min / 2
    return logits + mask.masked_fill(~keep, 0.0), keep


def dense_weights(call: Call, normaliser: Normaliser) -> Tensor:
    """Return the weights [B, H, n_q, n_k] that a normaliser gives a call."""
    n_k = call.key.shape[-2]
    logits, keep = dense_logits(call)
    n_keys = torch.tensor(n_k) if keep is None else keep.sum(-1)
    query = normaliser.prepare_query(call.query, n_keys.to(call.query.device))
    repeated = call.key.repeat_interleave(call.n_heads // call.key.shape[-3], -3)
    key = normaliser.prepare_key(repeated)
    if query is not call.query or key is not repeated:
        logits, keep = dense_logits(Call(**(vars(call) | {"query": query, "key": key})))
    return normaliser.weights_of(query, logits, keep)
