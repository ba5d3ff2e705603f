"""The two rounds of attention over ranks, each with its way back: before β, and after it.

    measure   k goes round           → RowStats of every row               back: k goes round with dk
    attend    k and v go round       → out and L of every row              back: k, v go round with dk, dv

β stands between them as an ordinary function of the statistics, so torch differentiates it, and what a normaliser
learns, by itself: the cotangent of β that `attend` finds becomes one of the statistics, with which `measure` goes back.
Where β needs no statistics and none are asked for, there is no first round.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from strop._types import Rows
from strop.errors import StateError
from strop.kernels.sharded.blocks import Rule, attend_piece, measure_piece, merge_outputs
from strop.kernels.sharded.piece_gradients import Attended, Measured, differentiate_attend, differentiate_measure
from strop.kernels.sharded.pieces import cut_pieces
from strop.kernels.sharded.ring import Ring
from strop.sharpness import RowStats, upcast


def measure_rows(rule: Rule, query: Tensor, key: Tensor) -> RowStats:
    """Return the statistics of our rows over the keys of all ranks, with their gradients."""
    apply: Callable[..., tuple[Tensor, ...]] = _Measure.apply
    return RowStats(*apply(rule, query, key, rule.mask.bias))


def attend_rows(rule: Rule, query: Tensor, key: Tensor, value: Tensor, beta: Rows) -> tuple[Tensor, Rows]:
    """Return softmax(β·logits)·v of our rows over the keys of all ranks and L = log Σ exp(β·logits), with gradients."""
    apply: Callable[..., tuple[Tensor, Rows]] = _Attend.apply
    return apply(rule, query, key, value, beta, rule.mask.bias)


def count_keys(rule: Rule, n_q: int, device: torch.device) -> Rows:
    """Return how many keys of all ranks each of our rows may see, broadcastable to [*batch, n_q]; nothing is sent."""
    shape = () if rule.mask.keep is None else rule.mask.keep.shape[:-2]
    found = torch.zeros(*shape, n_q, dtype=torch.int64, device=device)
    for owner in range(rule.shard.shards.ranks):
        for rows, keys, mask in cut_pieces(rule.shard, owner, rule.mask, n_q):
            found[..., rows] += mask.n_keys(rows.stop - rows.start, keys.stop - keys.start, device)
    return found


class _Measure(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rule: Rule, query: Tensor, key: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
        stats = RowStats.empty(query.shape[:-1], upcast(query))
        holders = torch.full((2, *stats.max.shape), -1, dtype=torch.int32, device=query.device)
        number = itertools.count()
        for owner, (block,) in Ring(rule.shard).visit([key]):
            for rows, keys, mask in cut_pieces(rule.shard, owner, rule.mask, query.shape[-2]):
                piece = measure_piece(rule, query[..., rows, :], block[..., keys, :], mask)
                before = RowStats(*(field[..., rows] for field in stats))
                merged = before.merge(piece)
                moved = torch.stack([merged.max > before.max, merged.min < before.min])
                holders[..., rows].masked_fill_(moved, next(number))
                for field, found in zip(stats, merged, strict=True):
                    field[..., rows] = found
        ctx.rule = rule
        ctx.save_for_backward(query, key, bias, holders, *stats)
        ctx.mark_non_differentiable(stats.n_keys)
        ctx.set_materialize_grads(False)
        return tuple(stats)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        _refuse_second_derivatives()
        query, key, bias, holders, *stats = ctx.saved_tensors
        found, rule = RowStats(*stats), ctx.rule
        zero = torch.zeros_like(found.mean)
        _, d_max, d_min, d_total, d_mean = grads
        cotangents = (d_max, d_min, zero if d_total is None else d_total, zero if d_mean is None else d_mean)
        q, number = upcast(query), itertools.count()
        d_query, d_bias = torch.zeros_like(q), _zeros(bias)

        def contribute(owner: int, blocks: list[Tensor]) -> list[Tensor]:
            d_key = torch.zeros_like(upcast(blocks[0]))
            for rows, keys, mask in cut_pieces(rule.shard, owner, rule.mask, query.shape[-2]):
                here = holders == next(number)
                rows_ = Measured(q, found, cotangents, (here[0], here[1])).pick(rows)
                part = differentiate_measure(rule, rows_, blocks[0][..., keys, :], mask)
                d_query[..., rows, :] += part.query
                d_key[..., keys, :] += part.key
                _add_bias(d_bias, part.bias, rule, owner, rows, keys)
            return [d_key]

        (d_key,) = Ring(rule.shard).gather([key], contribute)
        return None, d_query.to(query.dtype), d_key.to(key.dtype), _like(d_bias, bias)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rule: Rule, query: Tensor, key: Tensor, value: Tensor, beta: Rows, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        like = upcast(query)
        out = torch.zeros(*query.shape[:-1], value.shape[-1], dtype=like.dtype, device=like.device)
        total = torch.full_like(out[..., 0] if out.shape[-1] else like.sum(-1), -torch.inf)
        for owner, (k, v) in Ring(rule.shard).visit([key, value]):
            for rows, keys, mask in cut_pieces(rule.shard, owner, rule.mask, query.shape[-2]):
                piece = attend_piece(
                    rule, query[..., rows, :], k[..., keys, :], v[..., keys, :], beta[..., rows], mask
                )  # fmt: skip
                out[..., rows, :], total[..., rows] = merge_outputs((out[..., rows, :], total[..., rows]), piece)
        ctx.rule = rule
        ctx.save_for_backward(query, key, value, beta, bias, out, total)
        return out, total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _refuse_second_derivatives()
        query, key, value, beta, bias, out, total = ctx.saved_tensors
        rule = ctx.rule
        rows_ = Attended(upcast(query), beta, out, total, *grads)
        d_query, d_beta, d_bias = torch.zeros_like(rows_.query), torch.zeros_like(beta), _zeros(bias)

        def contribute(owner: int, blocks: list[Tensor]) -> list[Tensor]:
            k, v = blocks
            d_key, d_value = torch.zeros_like(upcast(k)), torch.zeros_like(upcast(v))
            for rows, keys, mask in cut_pieces(rule.shard, owner, rule.mask, query.shape[-2]):
                part = differentiate_attend(rule, rows_.pick(rows), k[..., keys, :], v[..., keys, :], mask)
                d_query[..., rows, :] += part.query
                d_beta[..., rows] += part.beta
                d_key[..., keys, :] += part.key
                d_value[..., keys, :] += part.value
                _add_bias(d_bias, part.bias, rule, owner, rows, keys)
            return [d_key, d_value]

        d_key, d_value = Ring(rule.shard).gather([key, value], contribute)
        return (
            None, d_query.to(query.dtype), d_key.to(key.dtype), d_value.to(value.dtype), d_beta, _like(d_bias, bias),
        )  # fmt: skip


def _add_bias(total: Tensor | None, part: Tensor | None, rule: Rule, owner: int, rows: slice, keys: slice) -> None:
    """Add a piece's gradient where its rows and keys stand in the bias of our rows and all keys."""
    if total is None or part is None:
        return
    where = _columns(rule, owner, keys)
    tall = total.ndim > 1 and total.shape[-2] > 1
    (total[..., rows, where] if tall else total[..., where]).add_(part)


def _columns(rule: Rule, owner: int, keys: slice) -> slice:
    """Where keys of a shard stand in the whole sequence."""
    at = 0
    for start, end in rule.shard.shards.spans[owner]:
        if at <= keys.start < at + end - start:
            return slice(start + keys.start - at, start + keys.stop - at)
        at += end - start
    raise StateError(f"keys must lie in the shard of rank {owner}, got {keys}.")


def _zeros(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else torch.zeros_like(upcast(bias))


def _like(found: Tensor | None, bias: Tensor | None) -> Tensor | None:
    return None if found is None or bias is None else found.to(bias.dtype)


def _refuse_second_derivatives() -> None:
    if torch.is_grad_enabled():  # create_graph: the result would carry no gradient of its own, silently
        raise StateError("Attention over ranks has no second derivatives. Take them in one process.")
