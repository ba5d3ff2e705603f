"""One call of attention as a model makes it, whatever the model: the common form behind every patch and every probe.

    logits = softcap(scale·q·kᵀ) + bias,  hidden where the mask hides;  weights = normaliser(logits);  out = weights·v

`mask` is a bool tensor (True = may look), an additive tensor, a `LazyMask` that is built a block of rows at a
time, or None. `causal` hides keys after the row's own index (torch's `is_causal`). `sink` [heads] is the
logit of an extra key that holds no value; it is the model's own and is not scaled by β.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from strop._checks import require
from strop.hf.masks import LazyMask, joined, triangle
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

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return self.query.shape[-3]

    @property
    def logit_scale(self) -> float:
        """The factor of q·k, 1/√d unless the model says otherwise."""
        return float(self.query.shape[-1] ** -0.5) if self.scale is None else float(self.scale)


def run(call: Call, normaliser: Normaliser, stats: bool = False) -> tuple[Tensor, RowStats | None]:
    """Return the output [B, H, n_q, d_v] and, where asked, the statistics of the raw logits."""
    normaliser = _with_models_sink(normaliser, call.sink)
    if call.causal and call.bias is not None:  # the bias is n×n already, so a triangle beside it costs nothing new
        call = replace(call, mask=triangle(call.query, call.key), causal=False)
    if not isinstance(call.mask, LazyMask):
        return _attend(call, normaliser, stats, joined(call.mask, call.bias), slice(None), slice(None))
    blocks = [_attend_block(call, normaliser, stats, start) for start in range(0, call.query.shape[-2], BLOCK)]
    out = torch.cat([out for out, _ in blocks], -2)
    parts = [part for _, part in blocks if part is not None]
    return out, RowStats(*(torch.cat(field, -1) for field in zip(*parts, strict=True))) if stats else None


def _attend_block(call: Call, normaliser: Normaliser, stats: bool, start: int) -> tuple[Tensor, RowStats | None]:
    """Attend from one block of rows to the keys that any of them may see."""
    assert isinstance(call.mask, LazyMask)
    rows = slice(start, min(start + BLOCK, call.query.shape[-2]))
    keep = call.mask.rows(rows.start, rows.stop)
    seen = keep.flatten(0, -2).any(0).nonzero()
    keys = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 1)
    bias = None if call.bias is None else call.bias[..., rows, keys]
    return _attend(call, normaliser, stats, joined(keep[..., keys], bias), rows, keys)


def _attend(
    call: Call, normaliser: Normaliser, stats: bool, mask: Tensor | None, rows: slice, keys: slice
) -> tuple[Tensor, RowStats | None]:
    query, key, value = call.query[..., rows, :], call.key[..., keys, :], call.value[..., keys, :]
    gqa = call.query.shape[-3] != call.key.shape[-3]
    own = {"normaliser": normaliser, "softcap": call.softcap, "return_stats": stats}
    made: Any = attention(query, key, value, mask, call.dropout, call.causal, call.logit_scale, gqa, **own)  # type: ignore[call-overload]
    return made if stats else (made, None)


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
