"""`attention`, the one door: it checks a call, and hands it to the implementation that is to run it."""

from __future__ import annotations

import math
from typing import Literal, overload

from torch import Tensor

from strop.kernels.checks import check_rule
from strop.kernels.dispatch import ImplName, attend
from strop.kernels.fit import fit_mask, fit_tensors
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.kernels.shards import shard_here
from strop.normalisers import Normaliser, find_shared
from strop.sharpness import RowStats


@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *,
    normaliser: Normaliser | str | None = None, softcap: float | None = None, impl: ImplName = "auto",
    return_stats: Literal[False] = False,
) -> Tensor: ...  # fmt: skip
@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *,
    normaliser: Normaliser | str | None = None, softcap: float | None = None, impl: ImplName = "auto",
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
    impl: ImplName = "auto",
    return_stats: bool = False,
) -> Tensor | tuple[Tensor, RowStats]:
    """Attend as torch's scaled_dot_product_attention does, with a choice of normaliser and with row statistics.

        logits  = scale·query·keyᵀ, soft-capped where asked, plus what attn_mask adds
        weights = normaliser(logits), over the keys that a row may see
        out     = dropout(weights)·value

    Every argument that torch's function has means what it means there. A row that may see no key gives zeros.

    Args:
        query: [*batch, n_q, d], usually [batch, heads, n_q, d].
        key: [*batch, n_k, d].
        value: [*batch, n_k, d_v].
        attn_mask: What each row may see, broadcastable to [*batch, n_q, n_k]: bool (True = may look), or numbers to add
            to the logits (−inf hides). Or an object of `torch.nn.attention.bias`.
        dropout_p: Share of the weights to drop. It acts whenever it is above 0: give 0 outside training.
        is_causal: Row i sees keys 0 … i. Not together with `attn_mask`. For decoding with a cache take
            `torch.nn.attention.bias.causal_lower_right` as the mask.
        scale: What multiplies query·key. None: 1/√d.
        enable_gqa: Allow key and value fewer heads than the query, whose number must be a multiple of theirs.
        normaliser: The rule from logits to weights: an object of `strop.normalisers`, or a short name such as
            "adaptive" (`strop.normalisers.NAMES` has them all). None: softmax.
        softcap: Bound the logits as softcap·tanh(logits/softcap), before the mask. None: no bound.
        impl: The implementation: "auto", or a name from the table below, which runs that one or raises with the reason.
        return_stats: Return the statistics of each row as well.

    Returns:
        out [*batch, n_q, d_v]; with `return_stats` the pair (out, `RowStats`). The statistics are those of each row's
        raw logits, before any temperature.

    Raises:
        ArgumentError: An argument makes no sense, or `impl` cannot run the call. A `ValueError`; its message says what
            to do.
        ArgumentTypeError: An argument is of the wrong kind. A `TypeError`.

    The implementations all agree with `reference` to rounding error:

        impl           memory       where          runs
        native         O(n)         CPU            the temperature family, sparsemax, 1.5-entmax; float32 and bfloat16
        scaled_query   O(n)         every device   β that is known beforehand, by torch's own function; no statistics
        triton         O(n)         CUDA, ROCm     the temperature family; float32, float16 and bfloat16
        fused_calls    O(n)         CPU, CUDA      the temperature family, by two calls of torch's; no statistics
        streaming      O(n·block)   every device   every row-wise normaliser, a block of rows at a time
        reference      O(n_q·n_k)   every device   every normaliser: the definition
        sharded        O(n/ranks)   every device   the temperature family over a group of ranks, inside `strop.sharded`

    "auto" takes the first of them that can run the call on its device. Products of the size of query·keyᵀ in a forward
    pass: 2 for native and scaled_query, as in plain attention; 4 for fused_calls where β needs the entropy.

    Examples:
        Without a normaliser it is torch's own function:

        >>> import torch
        >>> import strop
        >>> q, k, v = torch.randn(3, 1, 8, 64, 16)  # each [batch, heads, n, d]
        >>> out = strop.attention(q, k, v, is_causal=True)
        >>> torch.allclose(out, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-5)
        True

        One key of 128 fits the query. The values show the weight that it gets:

        >>> q, k, v = torch.tensor([[5.0]]), torch.zeros(128, 1), torch.zeros(128, 1)
        >>> k[0], v[0] = 1.0, 1.0
        >>> strop.attention(q, k, v)
        tensor([[0.5389]])
        >>> strop.attention(q, k, v, normaliser="adaptive")
        tensor([[0.9983]])

        How sharp is every row?

        >>> out, stats = strop.attention(q, k, v, return_stats=True)
        >>> stats
        RowStats(rows=(1,): n_keys 128.0, entropy 2.92 nats, top weight 0.54, spread 5.0)
        >>> round(stats.effective_keys.item(), 1)  # as blunt as 18.6 keys of equal weight
        18.6
    """
    normaliser = (
        find_shared(normaliser or "softmax") if normaliser is None or isinstance(normaliser, str) else normaliser
    )
    query, key, value = fit_tensors(query, key, value, enable_gqa)
    scale = 1.0 / math.sqrt(max(1, query.shape[-1])) if scale is None else scale
    shard = shard_here()
    n_k = key.shape[-2] if shard is None else shard.shards.n
    mask = Mask.read(fit_mask(attn_mask, query), is_causal, query, n_k)
    request = Request(query, key, value, mask, scale, normaliser, softcap, dropout_p, return_stats, shard=shard)
    check_rule(request)
    out, stats = attend(request, impl)
    return out if stats is None else (out, stats)
