"""Gradients of one piece of attention over ranks, from what is known of the whole row.

With s the logits, p = exp(s − logsumexp) and p′ = exp(β·s − L) over *all* keys, the cotangents dO of the output and dL
of L, and a, b of logsumexp and mean,

    attend    ds′ = p′·(dO·v − D),   D = dO·out − dL
              dq = β·Σ ds′·k,   dβ = Σ ds′·s,   dk = β·Σ ds′·q,   dv = Σ p′·dO
    measure   ds  = p·(a + b·(1 + s − mean)) = p·(b·s − D),     D = b·(mean − 1) − a

so a piece needs nothing of the others but these numbers of the row. Both are the backward pass of plain attention,
which torch's fused kernel of the CPU does: it forms D as dO·out, for which an `out` with that product is given; to
measure, keys stand for values and b·scale·q for dO. Elsewhere, with a soft cap, a bias, NaN or a cotangent of max or
min, the formula of the piece is differentiated, a few rows at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from strop._types import Rows
from strop.kernels.mask import Mask
from strop.kernels.plain import pad_widths
from strop.kernels.shapes import four_dimensional, four_dimensional_mask, repeat_heads, row_blocks
from strop.kernels.sharded.blocks import Rule, attend_by_formula, logits_by_formula
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
    if _is_fused(rule, rows.query, key, value):
        out = _with_product(rows.d_out, -rows.d_total, add_to=rows.out)
        tempered = rows.query * rows.beta[..., None]
        d_query, d_key, d_value = _run_backward(rule, tempered, key, value, out, rows.total, rows.d_out, mask)
        return AttendGradients(
            d_query * rows.beta[..., None], (d_query * rows.query).sum(-1), None, d_key, d_value
        )  # fmt: skip
    return _attend_backward_by_formula(rule, rows, key, value, mask)


def differentiate_measure(rule: Rule, rows: Measured, key: Tensor, mask: Mask) -> MeasureGradients:
    """Return the gradients of a piece of a measurement."""
    key = upcast(key)
    d_max, d_min, d_total, d_mean = rows.grads
    carrier = (rule.scale * d_mean)[..., None] * rows.query
    wanted = d_mean * (rows.stats.mean - 1.0) - d_total
    carried = ((carrier.square().sum(-1) > 0) | (wanted == 0)).all() if key.device.type == "cpu" else False
    if d_max is None and d_min is None and _is_fused(rule, rows.query, key, key) and bool(carried):
        out = _with_product(carrier, wanted)
        found = _run_backward(rule, rows.query, key, key, out, rows.stats.logsumexp, carrier, mask)
        return MeasureGradients(found[0], None, found[1])
    return _measure_backward_by_formula(rule, rows, key, mask)


def _is_fused(rule: Rule, query: Tensor, key: Tensor, value: Tensor) -> bool:
    if query.device.type != "cpu" or not rule.is_product or not query.numel() or not value.numel():
        return False
    return bool((query.sum() + key.sum() + value.sum()).isfinite())


def _with_product(carrier: Tensor, wanted: Rows, add_to: Tensor | None = None) -> Tensor:
    """Return a vector for each row whose product with the carrier is `wanted`, plus another vector."""
    square = carrier.square().sum(-1)
    share = torch.where(square > 0, wanted / square.clamp(min=torch.finfo(square.dtype).tiny), 0.0)
    found = share[..., None] * carrier
    return found if add_to is None else found + add_to


def _run_backward(
    rule: Rule, query: Tensor, key: Tensor, value: Tensor, out: Tensor, total: Rows, d_out: Tensor, mask: Mask
) -> tuple[Tensor, Tensor, Tensor]:
    """torch's backward pass of plain attention on the CPU, for rows whose log-sum-exp over all keys is `total`."""
    total = total.masked_fill(total == -torch.inf, torch.inf)  # a row that sees nothing has no weights
    q, k, v, o, d_o = pad_widths(*(four_dimensional(tensor) for tensor in (query, key, value, out, d_out)))
    height, width = query.shape[-2], key.shape[-2]
    causal = mask.keep is None and mask.diagonal == 0
    keep = None if causal else mask.dense(height, width, query.device)
    bias = None
    if keep is not None:
        seen = four_dimensional_mask(keep.expand(*keep.shape[:-2], height, width), query)
        bias = torch.zeros((), dtype=q.dtype).masked_fill(~seen, -torch.inf)
    found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        d_o.contiguous(), q, k, v, o.contiguous(), total.reshape(q.shape[:-1]).contiguous(), 0.0, causal,
        attn_mask=bias, scale=rule.scale,
    )  # fmt: skip
    like = (query, key, value)
    return tuple(g[..., : x.shape[-1]].reshape(x.shape) for g, x in zip(found, like, strict=True))


def _attend_backward_by_formula(rule: Rule, rows: Attended, key: Tensor, value: Tensor, mask: Mask) -> AttendGradients:
    parts = []
    for start, stop in row_blocks(rows.query, key.shape[-2]):
        some, seen = rows.pick(slice(start, stop)), mask.rows(start, stop)
        query, beta, k, v = (_leaf(x) for x in (some.query, some.beta, key, value))
        bias = None if seen.bias is None else _leaf(seen.bias)
        with torch.enable_grad():
            heads = (repeat_heads(k, query), repeat_heads(v, query))
            out, total = attend_by_formula(rule, query, *heads, beta, Mask(seen.keep, bias, seen.diagonal))
        share = _share(total.detach(), some.total)
        d_total = share * ((some.d_out * (out.detach() - some.out)).sum(-1) + some.d_total)
        parts.append(_pull((out, total), (share[..., None] * some.d_out, d_total), (query, beta, bias, k, v)))
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
