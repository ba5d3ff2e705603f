"""`count_gaps`: the gaps of every row's logits to its largest, counted while the logits pass by."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from strop._checks import require, require_known
from strop.kernels.checks import check_rule
from strop.kernels.dense import form_logits
from strop.kernels.dispatch import obstacle_to
from strop.kernels.fit import fit_mask, fit_tensors
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.kernels.shapes import repeat_heads, row_blocks
from strop.kernels.shards import shard_here
from strop.kernels.tracing import autocast_dtype, may_look
from strop.normalisers import find_shared
from strop.sharpness import GapCounts, upcast


@torch.no_grad()
def count_gaps(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    softcap: float | None = None,
    impl: Literal["auto", "native", "streaming"] = "auto",
) -> GapCounts:
    """Count, for every query row, how far below its largest logit the other keys lie.

    The n_q × n_k logits are never in memory at once. Counts have no gradient.

    Args:
        query: [*batch, n_q, d], as `strop.attention` takes it.
        key: [*batch, n_k, d].
        attn_mask: What each row may see, broadcastable to [*batch, n_q, n_k]: bool, or numbers to add to the logits.
        is_causal: Row i sees keys 0 … i. Not together with `attn_mask`.
        scale: What multiplies query·key. None: 1/√d.
        enable_gqa: Allow key fewer heads than the query, whose number must be a multiple of theirs.
        softcap: Bound the logits as softcap·tanh(logits/softcap), before the mask. None: no bound.
        impl: "native" counts in the first pass of the CPU kernel, and raises where that cannot run; "streaming" is the
            definition, `GapCounts.of` a block of rows at a time, on any device. "auto": the first that can run.

    Returns:
        `GapCounts` of every row.

    Examples:
        How sharp must a row be to part its first key from the rest, as n grows?

        >>> import torch
        >>> from strop.kernels import count_gaps
        >>> q, k = torch.randn(2, 4096, 64, generator=torch.Generator().manual_seed(0))
        >>> beta = count_gaps(q, k, is_causal=True).critical_beta()
        >>> [round(beta[n // 2 : n].mean().item(), 1) for n in (64, 512, 4096)]
        [2.2, 2.8, 3.3]
    """
    require_known("impl", impl, ("auto", "native", "streaming"))
    require(shard_here() is None, "count_gaps must run outside strop.sharded", "a call inside")
    query, key, _ = fit_tensors(query, key, key, enable_gqa)
    scale = 1.0 / math.sqrt(max(1, query.shape[-1])) if scale is None else scale
    mask = Mask.read(fit_mask(attn_mask, query), is_causal, query, key.shape[-2])
    request = Request(query, key, key, mask, scale, find_shared("softmax"), softcap)
    check_rule(request)
    obstacle = obstacle_to("native", request) if may_look(query) else "traced tensors have no numbers to look at"
    if impl == "streaming" or (impl == "auto" and obstacle is not None):
        return _count_by_rows(request)
    require(obstacle is None, "impl must be able to count these gaps", f"'native': {obstacle}", "Use impl='auto'")
    from strop.kernels.native import implementation

    return implementation.count_gaps(request)


def _count_by_rows(request: Request) -> GapCounts:
    if autocast_dtype(request.query.device) is not None:  # it has chosen the dtype, and is not to change what is inside
        with torch.autocast(request.query.device.type, enabled=False):
            return _count_by_rows(request)
    key, parts = upcast(repeat_heads(request.key, request.query)), []
    for start, stop in row_blocks(request.query, request.n_k):
        query, mask = upcast(request.query[..., start:stop, :]), request.mask.rows(start, stop)
        logits = form_logits(query, key, request.scale, request.softcap, mask.bias)
        parts.append(GapCounts.of(logits, mask.dense(stop - start, request.n_k, key.device)))
    return GapCounts(torch.cat([part.top for part in parts], -1), torch.cat([part.counts for part in parts], -2))
