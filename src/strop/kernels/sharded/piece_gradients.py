"""Gradients of one piece of attention over ranks, from what is known of the whole row.

A row's output and statistics are merged from pieces, each with its share of the sums:

    share = exp(L_piece − L),      out = Σ share·out_piece,      mean = Σ share·mean_piece     (of mean, L = logsumexp)

so with the cotangents dO, dL of out and L, and a, b of logsumexp and mean, those of a piece are

    attend    dO_piece = share·dO,    dL_piece = share·(dO·(out_piece − out) + dL)
    measure   a_piece = share·(a + b·(mean_piece − mean)),    b_piece = share·b

and a piece needs nothing of the others but numbers of the row. It is run again and differentiated, where the logits are
a product of query and key by the kernels for one process (`Attend`), else by the formula, a few rows at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from strop._types import Rows
from strop.kernels.mask import Mask
from strop.kernels.shapes import repeat_heads, row_blocks
from strop.kernels.sharded.blocks import Rule, attend_by_formula, attend_piece, logits_by_formula, measure_piece
from strop.sharpness import RowStats, upcast


class Attended(NamedTuple):
    """Rows of a finished attention with their cotangents, all in float32 or better."""

    query: Tensor
    beta: Rows
    out: Tensor
    total: Rows
    d_out: Tensor
    d_total: Rows

    def pick(self, rows: slice) -> Attended:
        """Return some of the rows."""
        return Attended(*(t[..., rows, :] if t.ndim == self.query.ndim else t[..., rows] for t in self))


class Measured(NamedTuple):
    """Rows of a finished measurement: their query, statistics and the cotangents of max, min, logsumexp and mean."""

    query: Tensor
    stats: RowStats
    grads: tuple[Rows | None, Rows | None, Rows, Rows]
    holds: tuple[Tensor, Tensor]
    """Whether this piece is the one in which max and min of a row were found: it carries their gradient."""

    def pick(self, rows: slice) -> Measured:
        """Return some of the rows."""
        grads = tuple(None if grad is None else grad[..., rows] for grad in self.grads)
        return Measured(
            self.query[..., rows, :], self.stats.map(lambda field: field[..., rows]), grads,  # type: ignore[arg-type]
            (self.holds[0][..., rows], self.holds[1][..., rows]),
        )  # fmt: skip


class AttendGradients(NamedTuple):
    """What a piece gives to its rows (query, β, bias) and to its keys and values."""

    query: Tensor
    beta: Rows
    bias: Tensor | None
    key: Tensor
    value: Tensor


class MeasureGradients(NamedTuple):
    """What a piece gives to its rows (query, bias) and to its keys."""

    query: Tensor
    bias: Tensor | None
    key: Tensor


def differentiate_attend(rule: Rule, rows: Attended, key: Tensor, value: Tensor, mask: Mask) -> AttendGradients:
    """Return the gradients of a piece of attention."""
    key, value = upcast(key), upcast(value)
    if not rule.is_product:
        return _attend_backward_by_formula(rule, rows, key, value, mask)
    query, beta, k, v = (_leaf(x) for x in (rows.query, rows.beta, key, value))
    with torch.enable_grad():
        out, total = attend_piece(rule, query, k, v, beta, mask)
    cotangents = _pull_outputs(rows, out.detach(), total.detach())
    d_query, d_beta, d_key, d_value = torch.autograd.grad((out, total), (query, beta, k, v), cotangents)
    return AttendGradients(d_query, d_beta, None, d_key, d_value)


def differentiate_measure(rule: Rule, rows: Measured, key: Tensor, mask: Mask) -> MeasureGradients:
    """Return the gradients of a piece of a measurement."""
    key = upcast(key)
    if not rule.is_product:
        return _measure_backward_by_formula(rule, rows, key, mask)
    query, k = _leaf(rows.query), _leaf(key)
    with torch.enable_grad():
        stats = measure_piece(rule, query, k, mask)
    cotangents = _pull_merge(rows, stats.map(Tensor.detach))
    skip = 2 if rows.grads[:2] == (None, None) else 0  # nothing flows into max and min
    d_query, d_key = torch.autograd.grad(stats[1 + skip :], (query, k), cotangents[skip:])
    return MeasureGradients(d_query, None, d_key)


def _attend_backward_by_formula(rule: Rule, rows: Attended, key: Tensor, value: Tensor, mask: Mask) -> AttendGradients:
    parts = []
    for start, stop in row_blocks(rows.query, key.shape[-2]):
        some, seen = rows.pick(slice(start, stop)), mask.rows(start, stop)
        query, beta, k, v = (_leaf(x) for x in (some.query, some.beta, key, value))
        bias = None if seen.bias is None else _leaf(seen.bias)
        with torch.enable_grad():
            heads = (repeat_heads(k, query), repeat_heads(v, query))
            out, total = attend_by_formula(rule, query, *heads, beta, Mask(seen.keep, bias, seen.diagonal))
        cotangents = _pull_outputs(some, out.detach(), total.detach())
        parts.append(_pull((out, total), cotangents, (query, beta, bias, k, v)))
    query_, beta_, bias_, key_, value_ = zip(*parts, strict=True)
    return AttendGradients(
        torch.cat(query_, -2), torch.cat(beta_, -1), _join_bias(bias_, mask.bias), _sum(key_), _sum(value_)
    )


def _measure_backward_by_formula(rule: Rule, rows: Measured, key: Tensor, mask: Mask) -> MeasureGradients:
    parts = []
    for start, stop in row_blocks(rows.query, key.shape[-2]):
        some, seen = rows.pick(slice(start, stop)), mask.rows(start, stop)
        query, k = _leaf(some.query), _leaf(key)
        bias = None if seen.bias is None else _leaf(seen.bias)
        with torch.enable_grad():
            logits = logits_by_formula(rule, query, repeat_heads(k, query), Mask(seen.keep, bias, seen.diagonal))
            found = RowStats.of(*logits)
        parts.append(_pull(found[1:], _pull_merge(some, found.map(Tensor.detach)), (query, bias, k)))
    query_, bias_, key_ = zip(*parts, strict=True)
    return MeasureGradients(torch.cat(query_, -2), _join_bias(bias_, mask.bias), _sum(key_))


def _pull_outputs(rows: Attended, out: Tensor, total: Rows) -> tuple[Tensor, Rows]:
    """Cotangents of a piece's output and L from those of the merged ones."""
    share = _share(total, rows.total)
    return share[..., None] * rows.d_out, share * ((rows.d_out * (out - rows.out)).sum(-1) + rows.d_total)


def _pull_merge(rows: Measured, found: RowStats) -> tuple[Rows, Rows, Rows, Rows]:
    """Cotangents of a piece's statistics from those of the merged ones."""
    d_max, d_min, d_total, d_mean = rows.grads
    share = _share(found.logsumexp, rows.stats.logsumexp)
    zero = torch.zeros_like(share)
    ends = [
        zero if grad is None else torch.where(here, grad, zero)
        for grad, here in zip((d_max, d_min), rows.holds, strict=True)
    ]
    d_total = share * (d_total + d_mean * (found.mean - rows.stats.mean))
    return ends[0], ends[1], d_total, share * d_mean


def _share(part: Rows, whole: Rows) -> Rows:
    """A piece's share of its rows' sums; 0 where it has nothing."""
    return torch.where(part == -torch.inf, 0.0, (part - whole.masked_fill(whole == -torch.inf, 0.0)).exp())


def _pull(
    results: tuple[Tensor, ...], cotangents: tuple[Tensor, ...], leaves: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    wanted = [leaf for leaf in leaves if leaf is not None]
    found = iter(torch.autograd.grad(results, wanted, cotangents, allow_unused=True, materialize_grads=True))
    return [None if leaf is None else next(found) for leaf in leaves]


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _sum(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]


def _join_bias(parts: tuple[Tensor | None, ...], bias: Tensor | None) -> Tensor | None:
    """Rows side by side, or the sum where all rows share them."""
    if bias is None or parts[0] is None:
        return None
    found = [part for part in parts if part is not None]
    return torch.cat(found, -2) if bias.ndim > 1 and bias.shape[-2] > 1 else torch.stack(found).sum(0)
