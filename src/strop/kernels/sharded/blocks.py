"""One piece of attention over ranks: some rows of ours, some keys of a visitor.

    measure   RowStats of the logits
    attend    softmax(β·logits)·v over the keys of the piece alone, and L = log Σ exp(β·logits)

Pieces merge exactly: statistics by `RowStats.merge`, outputs by out = Σ exp(L_piece − L)·out_piece. Where the logits
are a product of query and key, β scales the query and the kernels for one process run the piece (`Attend`): attention
to values of no width is what measures. Soft-capped and biased logits go by the formula, a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from strop._types import Keep, Logits, Rows
from strop.kernels.dense import careful_sum, form_logits
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.kernels.shapes import repeat_heads, row_blocks
from strop.kernels.shards import LocalShard
from strop.kernels.tracing import may_look
from strop.normalisers import Softmax
from strop.normalisers.base import softmax
from strop.sharpness import RowStats, upcast

Attend = Callable[[Request], tuple[Tensor, RowStats | None]]
"""Attention in one process, by whatever implementation suits."""

PLAIN = Softmax()


@dataclass(frozen=True, eq=False)
class Rule:
    """What all pieces of a call share."""

    shard: LocalShard
    mask: Mask
    scale: float
    softcap: float | None
    attend: Attend

    @cached_property
    def is_product(self) -> bool:
        """Whether the logits are a product of query and key, so that β may scale the query."""
        return self.softcap is None and not self.mask.adds


def measure_piece(rule: Rule, query: Tensor, key: Tensor, mask: Mask) -> RowStats:
    """Return the statistics of a piece, in float32 or better."""
    request = Request(query, key, key[..., :0], mask, rule.scale, PLAIN, rule.softcap, return_stats=True)
    stats = rule.attend(request)[1]
    assert stats is not None
    return stats


def attend_piece(rule: Rule, query: Tensor, key: Tensor, value: Tensor, beta: Rows, mask: Mask) -> tuple[Tensor, Rows]:
    """Return the output [*batch, rows, d_v] over a piece's keys and L [*batch, rows], in float32 or better."""
    if rule.is_product:
        tempered = upcast(query) * beta[..., None]
        request = Request(tempered, upcast(key), upcast(value), mask, rule.scale, PLAIN, return_stats=True)
        out, stats = rule.attend(request)
        assert stats is not None
        return out, stats.logsumexp
    key, value = (upcast(repeat_heads(tensor, query)) for tensor in (key, value))
    parts = [
        attend_by_formula(rule, upcast(query[..., a:b, :]), key, value, beta[..., a:b], mask.rows(a, b))
        for a, b in row_blocks(query, key.shape[-2])
    ]
    return torch.cat([out for out, _ in parts], -2), torch.cat([total for _, total in parts], -1)


def attend_by_formula(
    rule: Rule, query: Tensor, key: Tensor, value: Tensor, beta: Rows, mask: Mask
) -> tuple[Tensor, Rows]:
    """The definition of a piece: key and value have the query's heads, all are float32 or better."""
    logits, keep = logits_by_formula(rule, query, key, mask)
    tempered = beta[..., None] * logits
    weights = softmax(tempered, keep)
    plain = may_look(value) and bool(value.isfinite().all())
    out = weights @ value if plain else careful_sum(weights, value, keep)
    return out, RowStats.of(tempered, keep).logsumexp


def logits_by_formula(rule: Rule, query: Tensor, key: Tensor, mask: Mask) -> tuple[Logits, Keep | None]:
    """Return the logits of a piece and what may be seen of them."""
    logits = form_logits(query, key, rule.scale, rule.softcap, mask.bias)
    return logits, mask.dense(query.shape[-2], key.shape[-2], query.device)


def merge_outputs(one: tuple[Tensor, Rows], other: tuple[Tensor, Rows]) -> tuple[Tensor, Rows]:
    """Return output and L of the keys of both; rows that see nothing in either stay zero."""
    total = torch.logaddexp(one[1], other[1])
    finite = total.masked_fill(total == -torch.inf, 0.0)
    out = sum(out * (part - finite).exp()[..., None] for out, part in (one, other))
    assert isinstance(out, Tensor)
    return out, total
