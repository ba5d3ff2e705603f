"""The backward kernels: one over query rows, then one over keys. Both form the logits again.

With p the weights at β = 1, w those at β, dP = dout·v, D = dout·out and μ = Σ p·e,

    t = w·(dP − D)                                 the gradient of β·e
    dβ = Σ t·e,     dsink = −exp(sink − total)·D
    de = β·t + p·(a + c·(e − μ))                   the gradient of e

in which a and c bring what flows into a row's statistics: a = dlogsumexp + dmean, and c = dmean − dβ·β′(H) where β is a
function of the entropy H = logsumexp − μ. There c is known when all keys have passed, so that the query's gradient
takes two sums, scale·(Σ (β·t + a·p)·k + c·Σ p·(e − μ)·k). The second kernel is given c and D.

Σ t ought to be −dsink, but out was rounded and the weights are formed again. The excess x = Σ t + dsink is small; times
logits it is not, and it adds up where a number of the rule's own sums dβ over all rows. So the second kernel is given
D + x, and dβ = Σ t·e − x·Σ w·e. Where β is a curve there are no registers left for these sums: D stays as it is, and
dβ = Σ t·(e − μ) − μ·dsink, in which the excess meets no large number.
"""

import triton
import triton.language as tl

from strop.kernels.triton.forward import look
from strop.kernels.triton.logits import (
    BETA,
    LSE,
    MEAN,
    TOTAL,
    bend_slope,
    find_limits,
    load_rows,
    point,
    shape_logits,
    store_rows,
)  # fmt: skip

# Planes of what the first kernel carries to the second and to torch, [CARRIED, B, H, n_q]:
DELTA = tl.constexpr(0)  # D
LEAN = tl.constexpr(1)  # c
D_BETA = tl.constexpr(2)
D_SINK = tl.constexpr(3)
CARRIED = 4


@triton.jit
def backward_of_rows(
    q, k, v, keep, bias, sink, out, d_out, rows, d_rows, d_q, carried,
    n_q, n_k, diagonal, scale, softcap, curve, heads, count,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """Gradients of BM query rows, and of their β and sink. SLOPE: β is a curve through which gradients flow."""
    blocks = tl.cdiv(n_q, BM)
    pid = tl.program_id(0)
    block, bh = blocks - 1 - pid % blocks, pid // blocks
    b, h = bh // heads, bh % heads
    row = block * BM + tl.arange(0, BM)
    inside, at = row < n_q, tl.cast(bh, tl.int64) * n_q + row
    limit = find_limits(row, n_q, n_k, diagonal)
    sight = look(keep, bias, b, h, row[:, None], limit[:, None], scale, softcap)
    inner = tl.minimum(tl.maximum(block * BM + diagonal + 1, 0), n_k) // BN * BN
    end = tl.max(limit, 0)
    query = load_rows(point(q, b, h, row), inside, D, BD, True)
    known = load_known(rows, d_rows, at, count, inside, d_out.pointer is not None, SLOPE)
    if d_out.pointer is not None:
        mixed_grad = load_rows(point(d_out, b, h, row), inside, DV, BDV, True)
        mixed = load_rows(point(out, b, h, row), inside, DV, BDV, True)
        delta = tl.sum(mixed_grad.to(tl.float32) * mixed.to(tl.float32), 1)
    else:
        mixed_grad, delta = None, None
    keys = (k, b, h // GROUP, n_k)
    zero = tl.zeros((BM,), tl.float32)
    sums = (zero, zero, zero, tl.zeros((BM, BD), tl.float32), tl.zeros((BM, BD), tl.float32))
    sums = gather_rows(
        query, mixed_grad, keys, v, sight, known, delta, 0, inner, sums, D, BD, DV, BDV, BN, SLOPE, False
    )
    sums = gather_rows(
        query, mixed_grad, keys, v, sight, known, delta, inner, end, sums, D, BD, DV, BDV, BN, SLOPE, True
    )
    d_beta, excess, middle, gathered, leaning = sums
    lse, mean, _, total, _, lean = known
    if d_out.pointer is not None:
        if sink.pointer is not None:
            sink_row = tl.load(point(sink, b, h, row), mask=inside, other=0.0)
            d_sink = -tl.exp(sink_row - total) * delta
            tl.store(carried + D_SINK * count + at, d_sink, mask=inside)
            if SLOPE:
                d_beta -= mean * d_sink  # Σ t, by which the mean had been taken out of each logit
            else:
                excess += d_sink
        if not SLOPE:
            d_beta -= excess * middle
            delta += excess
        tl.store(carried + DELTA * count + at, delta, mask=inside)
        tl.store(carried + D_BETA * count + at, d_beta, mask=inside)
    if SLOPE:
        lean -= d_beta * bend_slope(lse - mean, curve)
        gathered += lean[:, None] * leaning
        tl.store(carried + LEAN * count + at, lean, mask=inside)
    store_rows(point(d_q, b, h, row), inside, gathered * scale, D, BD)


@triton.jit
def load_known(rows, d_rows, at, count, inside, VALUES: tl.constexpr, SLOPE: tl.constexpr):
    """Log-sum-exp, mean, β and total of rows, and a and c as far as they are known; None for what nothing asks for."""
    lse, mean, beta, total, lift, lean = None, None, None, None, None, None
    if SLOPE or d_rows is not None:
        lse = tl.load(rows + LSE * count + at, mask=inside, other=float("inf"))
        mean = tl.load(rows + MEAN * count + at, mask=inside, other=0.0)
        lift, lean = tl.zeros_like(mean), tl.zeros_like(mean)
    if d_rows is not None:
        lean = tl.load(d_rows + MEAN * count + at, mask=inside, other=0.0)
        lift = lean + tl.load(d_rows + LSE * count + at, mask=inside, other=0.0)
    if VALUES:
        beta = tl.load(rows + BETA * count + at, mask=inside, other=0.0)
        total = tl.load(rows + TOTAL * count + at, mask=inside, other=float("inf"))
    return lse, mean, beta, total, lift, lean


@triton.jit
def gather_rows(
    query, mixed_grad, keys, v, sight, known, delta, start, end, sums,
    D: tl.constexpr, BD: tl.constexpr, DV: tl.constexpr, BDV: tl.constexpr, BN: tl.constexpr,
    SLOPE: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Some keys' part in Σ t·e, Σ t, Σ w·e and in the two sums of the query's gradient."""
    k, b, h, n_k = keys
    d_beta, excess, middle, gathered, leaning = sums
    lse, mean, beta, total, lift, lean = known
    for j in range(start, end, BN):
        key = j + tl.arange(0, BN)
        tile = load_rows(point(k, b, h, key), key < n_k, D, BD, EDGE)
        logits, seen, slope = shape_logits(
            tl.dot(query, tl.trans(tile), input_precision="ieee"), key[None, :], sight, EDGE
        )
        change = tl.zeros_like(logits)
        if mixed_grad is not None:
            value = load_rows(point(v, b, h, key), key < n_k, DV, BDV, EDGE)
            weight = tl.where(seen, tl.exp(logits * beta[:, None] - total[:, None]), 0.0)
            flow = tl.dot(mixed_grad, tl.trans(value), input_precision="ieee")
            tempered = weight * (flow - delta[:, None])
            change += tempered * beta[:, None]
            level = (logits - mean[:, None]) if SLOPE else logits
            d_beta += tl.sum(tempered * level, 1)
            if not SLOPE:
                excess += tl.sum(tempered, 1)
                middle += tl.sum(weight * level, 1)
        if lse is not None:
            plain = tl.where(seen, tl.exp(logits - lse[:, None]), 0.0)
            above = plain * tl.where(seen, logits - mean[:, None], 0.0)
            if SLOPE:
                change += plain * lift[:, None]
                leaning = tl.dot((above * slope).to(tile.dtype), tile, leaning, input_precision="ieee")
            else:
                change += plain * lift[:, None] + above * lean[:, None]
        change = tl.where(seen, change * slope, 0.0)
        gathered = tl.dot(change.to(tile.dtype), tile, gathered, input_precision="ieee")
    return d_beta, excess, middle, gathered, leaning


@triton.jit
def backward_of_keys(
    q, k, v, keep, bias, d_out, rows, d_rows, d_k, d_v, d_bias, carried,
    n_q, n_k, diagonal, scale, softcap, heads, count,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """Gradients of BN keys and their values, and of the bias, from all rows of all query heads that share them."""
    blocks = tl.cdiv(n_k, BN)
    pid = tl.program_id(0)
    block, b_kv = pid % blocks, pid // blocks
    b, h_kv = b_kv // (heads // GROUP), b_kv % (heads // GROUP)
    key = block * BN + tl.arange(0, BN)
    inside = key < n_k
    tile = load_rows(point(k, b, h_kv, key), inside, D, BD, True)
    value = None
    if d_out.pointer is not None:
        value = load_rows(point(v, b, h_kv, key), inside, DV, BDV, True)
    start = tl.minimum(tl.maximum(block * BN - diagonal, 0), n_q) // BM * BM
    inner = tl.cdiv(tl.minimum(tl.maximum(block * BN + BN - 1 - diagonal, 0), n_q), BM) * BM
    inner = tl.where(block * BN + BN <= n_k, inner, n_q)
    sums = (tl.zeros((BN, BD), tl.float32), tl.zeros((BN, BDV), tl.float32))
    for g in range(GROUP):
        h = h_kv * GROUP + g
        given = (q, keep, bias, d_out, d_bias, rows, d_rows, carried, b, h, heads, n_q, n_k, diagonal, scale, softcap)
        sums = gather_keys(tile, value, key, given, start, inner, sums, count, D, BD, DV, BDV, BM, SLOPE, True)
        sums = gather_keys(tile, value, key, given, inner, n_q, sums, count, D, BD, DV, BDV, BM, SLOPE, False)
    store_rows(point(d_k, b, h_kv, key), inside, sums[0] * scale, D, BD)
    if d_out.pointer is not None:
        store_rows(point(d_v, b, h_kv, key), inside, sums[1], DV, BDV)


@triton.jit
def gather_keys(
    tile, value, key, given, start, end, sums, count,
    D: tl.constexpr, BD: tl.constexpr, DV: tl.constexpr, BDV: tl.constexpr, BM: tl.constexpr,
    SLOPE: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Some rows' part in the gradients of a block of keys. Tiles lie with the keys along the rows."""
    q, keep, bias, d_out, d_bias, rows, d_rows, carried, b, h, heads, n_q, n_k, diagonal, scale, softcap = given
    d_key, d_value = sums
    for i in range(start, end, BM):
        row = i + tl.arange(0, BM)
        inside, at = row < n_q, (tl.cast(b, tl.int64) * heads + h) * n_q + row
        query = load_rows(point(q, b, h, row), inside, D, BD, True)
        limit = find_limits(row, n_q, n_k, diagonal)
        sight = look(keep, bias, b, h, row[None, :], limit[None, :], scale, softcap)
        product = tl.dot(tile, tl.trans(query), input_precision="ieee")
        logits, seen, slope = shape_logits(product, key[:, None], sight, EDGE)
        lse, mean, beta, total, lift, lean = load_known(rows, d_rows, at, count, inside, value is not None, SLOPE)
        change = tl.zeros_like(logits)
        if value is not None:
            mixed_grad = load_rows(point(d_out, b, h, row), inside, DV, BDV, True)
            delta = tl.load(carried + DELTA * count + at, mask=inside, other=0.0)
            weight = tl.where(seen, tl.exp(logits * beta[None, :] - total[None, :]), 0.0)
            d_value = tl.dot(weight.to(mixed_grad.dtype), mixed_grad, d_value, input_precision="ieee")
            flow = tl.dot(value, tl.trans(mixed_grad), input_precision="ieee")
            change += weight * (flow - delta[None, :]) * beta[None, :]
        if lse is not None:
            if SLOPE:
                lean = tl.load(carried + LEAN * count + at, mask=inside, other=0.0)
            plain = tl.where(seen, tl.exp(logits - lse[None, :]), 0.0)
            change += plain * (lift[None, :] + lean[None, :] * tl.where(seen, logits - mean[None, :], 0.0))
        change = tl.where(seen, change, 0.0)
        if d_bias.pointer is not None:
            to = point(d_bias, b, h, row)[None, :] + tl.cast(key, tl.int64)[:, None] * d_bias.col
            tl.atomic_add(to, change, mask=seen & inside[None, :] & (key < n_k)[:, None], sem="relaxed")
        d_key = tl.dot((change * slope).to(query.dtype), query, d_key, input_precision="ieee")
    return d_key, d_value
