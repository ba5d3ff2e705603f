"""The forward kernel: a block of query rows, one or two passes over its keys.

Pass 1 measures, and is made only where statistics are asked for or β needs them. It keeps the maximum m, l = Σ exp(e −
m) and w = Σ exp(e − m)·(e − m); when m moves to m′,

    w ← a·(w + l·(m − m′)),     l ← a·l,     a = exp(m − m′)

so that H = log l − w/l is a difference of numbers no larger than itself. Pass 2 attends at β, and after pass 1 it knows
its maximum, so that nothing is rescaled. A sink adds exp(sink) to the sum of the weights.
"""

import triton
import triton.language as tl

from strop.kernels.triton.logits import (
    BETA,
    LSE,
    MEAN,
    TOTAL,
    bend,
    find_limits,
    load_rows,
    point,
    shape_logits,
    store_rows,
)  # fmt: skip


@triton.jit
def attend_blocks(
    q, k, v, keep, bias, beta, sink, out, rows, extremes, counts,
    n_q, n_k, diagonal, scale, softcap, constant, curve, heads, count,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, MEASURE: tl.constexpr,
):  # fmt: skip
    """Attend from BM rows of one head; without values, measure alone."""
    blocks = tl.cdiv(n_q, BM)
    pid = tl.program_id(0)
    block, bh = blocks - 1 - pid % blocks, pid // blocks  # the longest rows of a triangle first
    b, h = bh // heads, bh % heads
    row = block * BM + tl.arange(0, BM)
    inside, at = row < n_q, tl.cast(bh, tl.int64) * n_q + row
    limit = find_limits(row, n_q, n_k, diagonal)
    sight = look(keep, bias, b, h, row[:, None], limit[:, None], scale, softcap)
    inner = tl.minimum(tl.maximum(block * BM + diagonal + 1, 0), n_k) // BN * BN
    end = tl.max(limit, 0)
    query = load_rows(point(q, b, h, row), inside, D, BD, True)
    keys = (k, b, h // GROUP, n_k)
    state, entropy = nothing_measured(BM), None
    if MEASURE:
        state = measure_keys(query, keys, sight, 0, inner, state, D, BD, BN, False)
        state = measure_keys(query, keys, sight, inner, end, state, D, BD, BN, True)
        if keep.pointer is None:
            state = (limit, state[1], state[2], state[3], state[4])
        entropy = store_statistics(state, rows, extremes, counts, at, count, inside)
    if v.pointer is not None:
        row_beta = choose_beta(curve, entropy, point(beta, b, h, row), constant, inside, BM)
        peak = find_peak(row_beta, state) if MEASURE else tl.full((BM,), -float("inf"), tl.float32)
        sums = (peak, tl.zeros((BM,), tl.float32), tl.zeros((BM, BDV), tl.float32))
        sums = attend_keys(query, keys, v, sight, row_beta, 0, inner, sums, D, BD, DV, BDV, BN, MEASURE, False)
        sums = attend_keys(query, keys, v, sight, row_beta, inner, end, sums, D, BD, DV, BDV, BN, MEASURE, True)
        mixed, total = finish(sums, point(sink, b, h, row), inside)
        store_rows(point(out, b, h, row), inside, mixed, DV, BDV)
        tl.store(rows + BETA * count + at, row_beta, mask=inside)
        tl.store(rows + TOTAL * count + at, total, mask=inside)


@triton.jit
def look(keep, bias, b, h, row, limit, scale, softcap):
    """What rows may see, for `shape_logits`; rows, heads and limits are shaped so that they broadcast to its tile."""
    return limit, point(keep, b, h, row), keep.col, point(bias, b, h, row), bias.col, scale, softcap


@triton.jit
def nothing_measured(BM: tl.constexpr):
    """Keys, largest and smallest logit, l and w of rows that have seen nothing."""
    zero = tl.zeros((BM,), tl.float32)
    return tl.zeros((BM,), tl.int32), zero - float("inf"), zero + float("inf"), zero, zero


@triton.jit
def measure_keys(
    query, keys, sight, start, end, state, D: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr, EDGE: tl.constexpr
):
    """Pass 1 over some keys."""
    k, b, h, n_k = keys
    n, top, low, mass, lean = state
    for j in range(start, end, BN):
        key = j + tl.arange(0, BN)
        tile = load_rows(point(k, b, h, key), key < n_k, D, BD, EDGE)
        logits, seen, _ = shape_logits(tl.dot(query, tl.trans(tile), input_precision="ieee"), key[None, :], sight, EDGE)
        low = tl.minimum(low, tl.min(tl.where(seen, logits, float("inf")), 1))
        higher = tl.maximum(top, tl.max(tl.where(seen, logits, -float("inf")), 1))
        shift = tl.where(higher > -float("inf"), higher, 0.0)
        drop = tl.where(mass > 0, top - shift, 0.0)
        below = tl.where(seen, logits - shift[:, None], 0.0)
        weight = tl.where(seen, tl.exp(below), 0.0)
        fade = tl.exp(drop)
        lean = fade * (lean + mass * drop) + tl.sum(weight * below, 1)
        mass = fade * mass + tl.sum(weight, 1)
        top = higher
        n += tl.sum(seen.to(tl.int32), 1)
    return n, top, low, mass, lean


@triton.jit
def store_statistics(state, rows, extremes, counts, at, count, inside):
    """Write the statistics of rows as `RowStats` has them, and return the entropy."""
    n, top, low, mass, lean = state
    empty = mass == 0
    safe = tl.where(empty, 1.0, mass)
    peak = tl.where(empty, 0.0, top)
    strange = mass != mass
    tl.store(counts + at, n.to(tl.int64), mask=inside)
    tl.store(extremes + at, tl.where(strange, mass, top), mask=inside)
    tl.store(extremes + count + at, tl.where(strange, mass, low), mask=inside)
    tl.store(rows + LSE * count + at, tl.where(empty, -float("inf"), peak + tl.log(safe)), mask=inside)
    tl.store(rows + MEAN * count + at, peak + lean / safe, mask=inside)
    entropy = tl.log(safe) - lean / safe
    return tl.where(entropy < 0, 0.0, entropy)


@triton.jit
def choose_beta(curve, entropy, given, constant, inside, BM: tl.constexpr):
    """β of rows: a curve of their entropy, numbers that are given, or a constant."""
    if curve is not None:
        beta = bend(entropy, curve)
    elif given is not None:
        beta = tl.load(given, mask=inside, other=0.0)
    else:
        beta = tl.full((BM,), constant, tl.float32)
    return beta


@triton.jit
def find_peak(row_beta, state):
    """The largest β·e of each row, whatever the sign of β; 0 for a row that sees nothing."""
    _, top, low, mass, _ = state
    return tl.where(mass == 0, 0.0, tl.where(row_beta < 0, row_beta * low, row_beta * top))


@triton.jit
def attend_keys(
    query, keys, v, sight, row_beta, start, end, sums,
    D: tl.constexpr, BD: tl.constexpr, DV: tl.constexpr, BDV: tl.constexpr, BN: tl.constexpr,
    KNOWN: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Pass 2 over some keys: largest β·e, Σ exp and Σ exp·v. Where the largest is KNOWN it does not move."""
    k, b, h, n_k = keys
    peak, mass, mixed = sums
    for j in range(start, end, BN):
        key = j + tl.arange(0, BN)
        tile = load_rows(point(k, b, h, key), key < n_k, D, BD, EDGE)
        value = load_rows(point(v, b, h, key), key < n_k, DV, BDV, EDGE)
        logits, seen, _ = shape_logits(tl.dot(query, tl.trans(tile), input_precision="ieee"), key[None, :], sight, EDGE)
        tempered = logits * row_beta[:, None]
        if KNOWN:
            shift = peak
        else:
            higher = tl.maximum(peak, tl.max(tl.where(seen, tempered, -float("inf")), 1))
            shift = tl.where(higher > -float("inf"), higher, 0.0)
            fade = tl.exp(tl.where(mass > 0, peak - shift, 0.0))
            mass, mixed, peak = mass * fade, mixed * fade[:, None], higher
        weight = tl.where(seen, tl.exp(tempered - shift[:, None]), 0.0)
        mass += tl.sum(weight, 1)
        mixed = tl.dot(weight.to(value.dtype), value, mixed, input_precision="ieee")
    return peak, mass, mixed


@triton.jit
def finish(sums, sink_rows, inside):
    """The output of rows, and the log of the sum that divides it; +inf, which makes weights 0, where none is seen."""
    peak, mass, mixed = sums
    empty = mass == 0
    peak = tl.where(empty, 0.0, peak)
    if sink_rows is not None:
        sink = tl.load(sink_rows, mask=inside, other=0.0)
        top = tl.where(sink > peak, sink, peak)
        fade = tl.exp(peak - top)
        mass, mixed, peak = mass * fade + tl.exp(sink - top), mixed * fade[:, None], top
    safe = tl.where(empty, 1.0, mass)
    return mixed / safe[:, None], tl.where(empty, float("inf"), peak + tl.log(safe))
