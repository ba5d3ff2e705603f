"""What every kernel does with one tile: load rows, form logits, see what is hidden, and find β.

Tensors arrive as a `Plane`, a pointer with its strides, so that broadcast masks keep stride 0 and grouped keys are not
repeated. A plane whose pointer is None is absent, and what it would do is not compiled. Offsets are 64-bit.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

# Planes of the row results [ROWS, B, H, n_q], what a backward pass needs of a row:
LSE = tl.constexpr(0)  # log Σ exp(e)
MEAN = tl.constexpr(1)  # Σ p·e at β = 1
BETA = tl.constexpr(2)
TOTAL = tl.constexpr(3)  # log (Σ exp(β·e) + exp(sink))
ROWS = 4


class Plane(NamedTuple):
    """A tensor [B, H, n, d] or [B, H, n] in a kernel: strides in elements, 0 where it is broadcast."""

    pointer: Any
    batch: int
    head: int
    row: int
    col: int


@triton.jit
def point(plane, b, h, row):
    """Pointers to rows of one head; None where the plane is absent."""
    if plane.pointer is None:
        pointers = None
    else:
        b, h, row = tl.cast(b, tl.int64), tl.cast(h, tl.int64), tl.cast(row, tl.int64)
        pointers = plane.pointer + b * plane.batch + h * plane.head + row * plane.row
    return pointers


@triton.jit
def load_rows(pointers, inside, D: tl.constexpr, BD: tl.constexpr, CHECK: tl.constexpr):
    """Rows [N, BD] of d numbers each, zeros from d on and, where CHECK, outside."""
    d = tl.arange(0, BD)
    at = pointers[:, None] + d[None, :]
    return tl.load(at, mask=inside[:, None] & (d < D)[None, :], other=0.0) if CHECK or D < BD else tl.load(at)


@triton.jit
def store_rows(pointers, inside, tile, D: tl.constexpr, BD: tl.constexpr):
    """Write rows [N, BD] in the dtype of what they are written to."""
    d = tl.arange(0, BD)
    at = pointers[:, None] + d[None, :]
    tl.store(at, tile.to(at.dtype.element_ty), mask=inside[:, None] & (d < D)[None, :])


@triton.jit
def find_limits(row, n_q, n_k, diagonal):
    """How many keys the triangle leaves to each row; none to rows that do not exist."""
    return tl.where(row < n_q, tl.minimum(tl.maximum(row + diagonal + 1, 0), n_k), 0)


@triton.jit
def shape_logits(product, key, sight, EDGE: tl.constexpr):
    """From q·k to logits: scaled, capped, biased; whether each is visible; and the slope of the cap.

    `key` numbers the keys, and `sight` says what the rows may see; both broadcast to the tile either way round. Without
    EDGE the whole tile lies below the triangle and within the keys.
    """
    limit, keep, keep_step, bias, bias_step, scale, softcap = sight
    logits, slope = product * scale, 1.0
    if softcap is not None:
        bent = tanh(logits / softcap)
        logits, slope = softcap * bent, 1.0 - bent * bent
    within = key < limit
    if bias is not None:
        logits += tl.load(bias + tl.cast(key, tl.int64) * bias_step, mask=within, other=0.0).to(tl.float32)
    seen = within if EDGE else tl.full(product.shape, True, tl.int1)
    if keep is not None:
        seen = seen & (tl.load(keep + tl.cast(key, tl.int64) * keep_step, mask=within, other=0) != 0)
    return logits, seen, slope


@triton.jit
def tanh(x):
    """Within 2 ulp at any size: a series near 0, where the quotient would cancel."""
    y = x * x
    series = x * (1 + y * (-1 / 3 + y * (2 / 15 + y * (-17 / 315 + y * (62 / 2835)))))
    fall = tl.exp(-2 * tl.abs(x))
    quotient = (1 - fall) / (1 + fall)
    return tl.where(tl.abs(x) < 0.25, series, tl.where(x < 0, -quotient, quotient))


@triton.jit
def bend(entropy, curve):
    """β(H) of `EntropyBeta`; a NaN entropy gives a NaN β."""
    threshold, hold_at, coefficients = curve
    held = tl.where(entropy > hold_at, hold_at, entropy)
    value = held * 0.0 + coefficients[0]
    for i in tl.static_range(1, len(coefficients)):
        value = value * held + coefficients[i]
    return tl.where(entropy <= threshold, 1.0, tl.where(value < 1.0, 1.0, value))


@triton.jit
def bend_slope(entropy, curve):
    """dβ/dH of `EntropyBeta`: that of the polynomial where it decides, 0 elsewhere."""
    threshold, hold_at, coefficients = curve
    value = entropy * 0.0 + coefficients[0]
    slope = entropy * 0.0
    for i in tl.static_range(1, len(coefficients)):
        slope = slope * entropy + value
        value = value * entropy + coefficients[i]
    return tl.where((value > 1.0) & (entropy > threshold) & (entropy < hold_at), slope, 0.0)
