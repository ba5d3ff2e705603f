"""Few queries and many keys, as in decoding: the keys are cut into pieces, which go their way at the same time.

The rows of all query heads that share a key head travel together, so that a key is read once. Where β needs statistics,
`measure_pieces` writes those of each piece; `attend_pieces` merges them, finds β and sums its own piece;
`merge_pieces` adds up. The merge is that of `RowStats`: each piece brings what `measure_keys` keeps.
"""

import triton
import triton.language as tl

from strop.kernels.triton.forward import (
    attend_keys,
    choose_beta,
    find_peak,
    finish,
    look,
    measure_keys,
    nothing_measured,
    store_statistics,
)  # fmt: skip
from strop.kernels.triton.logits import BETA, TOTAL, find_limits, load_rows, point, store_rows


@triton.jit
def find_rows(n_q, heads, GROUP: tl.constexpr, BM: tl.constexpr):
    """Batch entry, key head, query heads and rows of one block of packed rows, where they lie in [B, H, n_q]."""
    packed = tl.program_id(1) * BM + tl.arange(0, BM)
    groups = heads // GROUP
    b, h_kv = tl.program_id(2) // groups, tl.program_id(2) % groups
    h, row = h_kv * GROUP + packed // n_q, packed % n_q
    inside = packed < GROUP * n_q
    at = (tl.cast(b, tl.int64) * heads + h) * n_q + row
    return b, h_kv, h, row, inside, at


@triton.jit
def measure_pieces(
    q, k, keep, bias, pieces, n_q, n_k, diagonal, scale, softcap, heads, count, length,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Statistics of one piece of the keys, [5, pieces, B, H, n_q]."""
    b, h_kv, h, row, inside, at = find_rows(n_q, heads, GROUP, BM)
    piece, n_pieces = tl.program_id(0), tl.num_programs(0)
    limit = tl.where(inside, find_limits(row, n_q, n_k, diagonal), 0)
    sight = look(keep, bias, b, h[:, None], row[:, None], limit[:, None], scale, softcap)
    query = load_rows(point(q, b, h, row), inside, D, BD, True)
    start, end = piece * length, tl.minimum((piece + 1) * length, tl.max(limit, 0))
    state = measure_keys(query, (k, b, h_kv, n_k), sight, start, end, nothing_measured(BM), D, BD, BN, True)
    to = pieces + piece * count + at
    for i in tl.static_range(5):
        tl.store(to + i * n_pieces * count, state[i].to(tl.float32), mask=inside)


@triton.jit
def merge_statistics(pieces, at, count, inside, PIECES: tl.constexpr):
    """The statistics of rows from those of all pieces, as `measure_keys` would have them."""
    of = pieces + tl.arange(0, PIECES)[:, None] * count + at[None, :]
    n = tl.sum(tl.load(of, mask=inside[None, :], other=0.0), 0)
    tops = tl.load(of + PIECES * count, mask=inside[None, :], other=0.0)
    low = tl.min(tl.load(of + 2 * PIECES * count, mask=inside[None, :], other=0.0), 0)
    masses = tl.load(of + 3 * PIECES * count, mask=inside[None, :], other=0.0)
    leans = tl.load(of + 4 * PIECES * count, mask=inside[None, :], other=0.0)
    top = tl.max(tops, 0)
    drop = tl.where(masses == 0, 0.0, tops - top[None, :])
    fade = tl.exp(drop)
    return n.to(tl.int32), top, low, tl.sum(fade * masses, 0), tl.sum(fade * (leans + masses * drop), 0)


@triton.jit
def attend_pieces(
    q, k, v, keep, bias, beta, pieces, sums, mixed, rows, extremes, counts,
    n_q, n_k, diagonal, scale, softcap, constant, curve, heads, count, length,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, MEASURE: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Largest β·e and Σ exp [2, pieces, B, H, n_q] and Σ exp·v [pieces, B, H, n_q, d_v] of one piece of the keys."""
    b, h_kv, h, row, inside, at = find_rows(n_q, heads, GROUP, BM)
    piece = tl.program_id(0)
    limit = tl.where(inside, find_limits(row, n_q, n_k, diagonal), 0)
    sight = look(keep, bias, b, h[:, None], row[:, None], limit[:, None], scale, softcap)
    state, entropy = nothing_measured(BM), None
    if MEASURE:
        state = merge_statistics(pieces, at, count, inside, PIECES)
        entropy = store_statistics(state, rows, extremes, counts, at, count, inside & (piece == 0))
    if v.pointer is not None:
        row_beta = choose_beta(curve, entropy, point(beta, b, h, row), constant, inside, BM)
        peak = find_peak(row_beta, state) if MEASURE else tl.full((BM,), -float("inf"), tl.float32)
        query = load_rows(point(q, b, h, row), inside, D, BD, True)
        start, end = piece * length, tl.minimum((piece + 1) * length, tl.max(limit, 0))
        part = (peak, tl.zeros((BM,), tl.float32), tl.zeros((BM, BDV), tl.float32))
        keys = (k, b, h_kv, n_k)
        part = attend_keys(query, keys, v, sight, row_beta, start, end, part, D, BD, DV, BDV, BN, MEASURE, True)
        to = piece * count + at
        tl.store(sums + to, part[0], mask=inside)
        tl.store(sums + PIECES * count + to, part[1], mask=inside)
        store_rows(mixed + to * DV, inside, part[2], DV, BDV)
        tl.store(rows + BETA * count + at, row_beta, mask=inside & (piece == 0))


@triton.jit
def merge_pieces(
    sums, mixed, sink, out, rows, n_q, heads, count,
    DV: tl.constexpr, BDV: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """Add up the pieces of one row."""
    at = tl.cast(tl.program_id(0), tl.int64)
    b, h, row = at // n_q // heads, at // n_q % heads, at % n_q + tl.arange(0, 1)
    piece, d = tl.arange(0, PIECES), tl.arange(0, BDV)
    peaks, masses = tl.load(sums + piece * count + at), tl.load(sums + (PIECES + piece) * count + at)
    peak = tl.max(peaks, 0)
    fade = tl.exp(tl.where(masses == 0, 0.0, peaks - peak))
    parts = tl.load(mixed + (piece * count + at)[:, None] * DV + d[None, :], mask=(d < DV)[None, :], other=0.0)
    whole = (tl.zeros((1,), tl.float32) + peak, tl.zeros((1,), tl.float32) + tl.sum(fade * masses, 0),
             tl.sum(fade[:, None] * parts, 0)[None, :])  # fmt: skip
    inside = row < n_q
    one, total = finish(whole, point(sink, b, h, row), inside)
    store_rows(point(out, b, h, row), inside, one, DV, BDV)
    tl.store(rows + TOTAL * count + at + tl.arange(0, 1), total)
