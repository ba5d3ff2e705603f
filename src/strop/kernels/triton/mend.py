"""Rows whose output is not finite, done again so that a NaN or an infinity among the values reaches no other row.

A hidden value enters the product of a tile with weight 0, and 0·NaN is NaN. The kernel looks at the output, and where a
block holds something that is not finite it sums once more without such values; then it puts each of them where some
row may see it. Everywhere else nothing happens.
"""

import triton
import triton.language as tl

from strop.kernels.triton.forward import look
from strop.kernels.triton.logits import BETA, TOTAL, find_limits, load_rows, point, shape_logits, store_rows


@triton.jit
def mend_blocks(
    q, k, v, keep, bias, out, rows, n_q, n_k, diagonal, scale, softcap, heads, count,
    GROUP: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr, BDV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Do BM rows of one head again where their output is not finite."""
    blocks = tl.cdiv(n_q, BM)
    block, bh = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    b, h = bh // heads, bh % heads
    row = block * BM + tl.arange(0, BM)
    inside, at = row < n_q, tl.cast(bh, tl.int64) * n_q + row
    mixed = load_rows(point(out, b, h, row), inside, DV, BDV, True).to(tl.float32)
    strange = tl.abs(mixed - mixed) != 0.0  # NaN for NaN and for ±inf
    if tl.max(tl.max(strange.to(tl.int32), 1), 0) > 0:
        beta = tl.load(rows + BETA * count + at, mask=inside, other=0.0)
        total = tl.load(rows + TOTAL * count + at, mask=inside, other=float("inf"))
        limit = find_limits(row, n_q, n_k, diagonal)
        sight = look(keep, bias, b, h, row[:, None], limit[:, None], scale, softcap)
        query = load_rows(point(q, b, h, row), inside, D, BD, True)
        again = tl.zeros((BM, BDV), tl.float32)
        for j in range(0, tl.max(limit, 0), BN):
            key = j + tl.arange(0, BN)
            tile = load_rows(point(k, b, h // GROUP, key), key < n_k, D, BD, True)
            value = load_rows(point(v, b, h // GROUP, key), key < n_k, DV, BDV, True)
            product = tl.dot(query, tl.trans(tile), input_precision="ieee")
            logits, seen, _ = shape_logits(product, key[None, :], sight, True)
            weight = tl.where(seen, tl.exp(logits * beta[:, None] - total[:, None]), 0.0)
            plain = tl.where(tl.abs(value) < float("inf"), value, 0.0).to(value.dtype)
            again = tl.dot(weight.to(value.dtype), plain, again, input_precision="ieee")
            sees = seen.to(tl.float16)
            again += see(sees, value == float("inf"), float("inf"))
            again += see(sees, value == -float("inf"), -float("inf"))
            again += see(sees, value != value, float("nan"))
        store_rows(point(out, b, h, row), inside, again, DV, BDV)


@triton.jit
def see(sees, where, number):
    """A number where a row sees some key that has it, else 0."""
    return tl.where(tl.dot(sees, where.to(tl.float16)) > 0, number, 0.0)
