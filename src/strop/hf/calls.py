"""One call of attention as a model makes it, whatever the model: the common form behind every patch and every probe.

    logits = softcap(scale·q·kᵀ) + bias,  hidden where the mask hides;  weights = normaliser(logits);  out = weights·v

`mask` is a bool tensor (True = may look), an additive tensor, a `LazyMask` that is built a block of rows at a
time, or None. `causal` hides keys after the row's own index (torch's `is_causal`). `sink` [heads] is the
logit of an extra key that holds no value; it is the model's own and is not scaled by β. `cross` says that the
keys are not the queries' own tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from strop._checks import require
from strop.hf.masks import LazyMask, joined, mask_rows, rows_of, triangle
from strop.kernels import attention
from strop.normalisers import Normaliser, Temperature, WithSink
from strop.sharpness import RowStats

BLOCK = 256
"""Rows at a time under a lazy mask."""


@dataclass(frozen=True)
class Call:
    """What a model handed to its attention; query [B, H, n_q, d], key and value [B, H_kv, n_k, d]."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | LazyMask | None = None
    bias: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    softcap: float | None = None
    sink: Tensor | None = None
    dropout: float = 0.0
    cross: bool = False

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return self.query.shape[-3]

    @property
    def logit_scale(self) -> float:
        """The factor of q·k, 1/√d unless the model says otherwise."""
        return float(self.query.shape[-1] ** -0.5) if self.scale is None else float(self.scale)


def run(call: Call, normaliser: Normaliser) -> Tensor:
    """Return the output [B, H, n_q, d_v]."""
    normaliser = _with_models_sink(normaliser, call.sink)
    if call.causal and call.bias is not None:  # the bias is n×n already, so a triangle beside it costs nothing new
        call = replace(call, mask=triangle(call.query, call.key), causal=False)
    if isinstance(call.mask, LazyMask):
        starts = range(0, call.query.shape[-2], BLOCK)
        return torch.cat([_attend_block(call, call.mask, normaliser, start) for start in starts], -2)
    out: Tensor = _attend(call, joined(call.mask, call.bias), normaliser=normaliser)
    return out


def row_stats(call: Call, rows: Tensor) -> RowStats:
    """Return the statistics of the raw logits of some rows, [B, H, R], in O(R·n_k) memory."""
    mask = joined(mask_rows(call.mask, call.causal, rows, call.key.shape[-2]), rows_of(call.bias, rows))
    some = replace(call, query=call.query[..., rows, :], causal=False, dropout=0.0)
    stats: RowStats = _attend(some, mask, return_stats=True)[1]
    return stats.map(lambda field: field.expand(some.query.shape[:-1]))


def _attend_block(call: Call, lazy: LazyMask, normaliser: Normaliser, start: int) -> Tensor:
    """Attend from one block of rows to the keys that any of them may see."""
    rows = slice(start, min(start + BLOCK, call.query.shape[-2]))
    keep = lazy.rows(rows.start, rows.stop)
    seen = keep.flatten(0, -2).any(0).nonzero()
    keys = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 1)
    bias = None if call.bias is None else call.bias[..., rows, keys]
    part = (call.query[..., rows, :], call.key[..., keys, :], call.value[..., keys, :])
    some = replace(call, query=part[0], key=part[1], value=part[2])
    out: Tensor = _attend(some, joined(keep[..., keys], bias), normaliser=normaliser)
    return out


def _attend(call: Call, mask: Tensor | None, **own: Any) -> Any:
    gqa = call.query.shape[-3] != call.key.shape[-3]
    given = (mask, call.dropout, call.causal, call.logit_scale, gqa)
    return attention(call.query, call.key, call.value, *given, softcap=call.softcap, **own)


def _with_models_sink(normaliser: Normaliser, sink: Tensor | None) -> Normaliser:
    if sink is None:
        return normaliser
    require(
        isinstance(normaliser, Temperature),
        "normaliser must be of the temperature family for a model with attention sinks",
        type(normaliser).__name__,
        "Such a model's sink is an extra softmax logit, which other rules do not have",
    )
    assert isinstance(normaliser, Temperature)
    own = normaliser.sink()
    logit = sink[:, None].float() if sink.dtype != torch.float64 else sink[:, None]
    return WithSink(normaliser, logit if own is None else torch.logaddexp(logit, own.to(logit)))
