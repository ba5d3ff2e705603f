"""Attention as the small models call it: the fastest implementation for their sizes, and the weights it used.

That is `impl="auto"`, but for rules that only the definition's two forms can run: where gradients are wanted and rows
are short, the whole matrix (`reference`) is faster than a block of rows at a time (docs/tasks.md has the times).

The weights of one row are read off without forming an n × n matrix: out = Σ w_j v_j, so w_j = ∂out/∂v_j.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from strop.kernels import attention
from strop.kernels.dispatch import ImplName
from strop.normalisers import Normaliser
from strop.normalisers.fusion import Dense
from strop.sharpness import RowStats, entropy_of

SHORT = 512
"""Keys up to which the whole n_q × n_k matrix is no burden."""


class AttentionSummary(NamedTuple):
    """What attention did: its raw logits' statistics and its own weights' top and entropy, each [*batch, n_q].

    `entropy` is NaN where the normaliser's weights are signed or sum to more than one.
    """

    rows: RowStats
    top_weight: Tensor
    entropy: Tensor


def apply_attention(
    query: Tensor, key: Tensor, value: Tensor, normaliser: Normaliser, scale: float, bias: Tensor | None, causal: bool
) -> Tensor:
    """Attend; `bias` is added to the logits and hides by −inf, so that it takes the place of `causal`."""
    causal = causal and bias is None
    impl = _implementation(normaliser, key)
    return attention(query, key, value, bias, is_causal=causal, scale=scale, normaliser=normaliser, impl=impl)


def _implementation(normaliser: Normaliser, key: Tensor) -> ImplName:
    trains = torch.is_grad_enabled() and key.device.type == "cpu" and key.shape[-2] <= SHORT
    return "reference" if trains and isinstance(normaliser.fusion(), Dense) else "auto"


def weights_of_one_row(query: Tensor, key: Tensor, normaliser: Normaliser, scale: float) -> tuple[RowStats, Tensor]:
    """Return (RowStats [*batch, 1], weights [*batch, n_k]) of query [*batch, 1, d]."""
    query, key = query.detach(), key.detach()
    with torch.enable_grad():
        value = torch.zeros(*key.shape[:-1], 1, dtype=key.dtype, device=key.device, requires_grad=True)
        out, rows = attention(query, key, value, scale=scale, normaliser=normaliser, return_stats=True)
        (weights,) = torch.autograd.grad(out.sum(), value)
    return rows.map(torch.detach), weights[..., 0]


@torch.no_grad()
def weights_of_all_rows(
    query: Tensor, key: Tensor, normaliser: Normaliser, scale: float, bias: Tensor | None, causal: bool
) -> tuple[RowStats, Tensor]:
    """Return (RowStats [*batch, n_q], weights [*batch, n_q, n_k]): attention to the columns of a unit matrix."""
    n_k = key.shape[-2]
    unit = torch.eye(n_k, dtype=key.dtype, device=key.device).expand(*key.shape[:-1], n_k)
    causal = causal and bias is None
    out, rows = attention(
        query, key, unit, bias, is_causal=causal, scale=scale, normaliser=normaliser, return_stats=True
    )
    return rows, out


def summarise_attention(rows: RowStats, weights: Tensor, normaliser: Normaliser) -> AttentionSummary:
    """Summarise weights [*batch, n_q, n_k]; the top weight of signed ones is the largest magnitude."""
    entropy = entropy_of(weights) if normaliser.simplex else torch.full_like(weights[..., 0], torch.nan)
    return AttentionSummary(rows, weights.abs().amax(-1), entropy)
