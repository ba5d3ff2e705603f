"""Numbers of a GGUF tensor, multiplied where they lie.

A quantised row is a run of blocks, and a block of a linear format is a scale (and some formats' minimum) in float16
times small integers: w = d·q, or d·q + m, or d·s·q − dmin·t in K-quants. So a factor that is the same for a whole block
multiplies its float16 numbers and nothing else: the size stays, and the error is their rounding, 2⁻¹¹ at most unless a
scale is so small that float16 has fewer digits for it. Blocks run along a row; factors of rows always fit, factors of
columns where a block lies within one head. What does not fit is stored anew, as Q8_0, or as F16 where a row is no
multiple of 32.
"""

from __future__ import annotations

from typing import NamedTuple

import gguf
import numpy as np

from strop._checks import require
from strop.errors import BakeError
from strop.pretrained.gguf_head import Array, Kind

HALVES: dict[Kind, tuple[int, ...]] = {
    Kind.Q4_0: (0,),
    Kind.Q4_1: (0, 2),
    Kind.Q5_0: (0,),
    Kind.Q5_1: (0, 2),
    Kind.Q8_0: (0,),
    Kind.Q2_K: (80, 82),
    Kind.Q3_K: (108,),
    Kind.Q4_K: (0, 2),
    Kind.Q5_K: (0, 2),
    Kind.Q6_K: (208,),
    Kind.IQ4_NL: (0,),
    Kind.IQ4_XS: (0,),
}
"""Where in a block its float16 numbers are, in bytes."""

FLOATS = {Kind.F32, Kind.F16, Kind.BF16}


class Stored(NamedTuple):
    """A tensor's numbers as a file holds them: rows of bytes or floats, their format, and the worst rounding."""

    data: Array
    kind: Kind
    rounding: float


def read_numbers(data: Array, kind: Kind) -> Array:
    """Return the numbers of a tensor in float32."""
    try:
        found: Array = gguf.quants.dequantize(data, kind)
    except NotImplementedError:
        rule, remedy = "a tensor's format must be one that the package gguf reads", "Quantise the model otherwise"
        require(False, rule, kind.name, remedy, BakeError)
    return found


def scale_numbers(data: Array, kind: Kind, rows: Array | None = None, columns: Array | None = None) -> Stored:
    """Multiply the rows and columns of a tensor by factors."""
    if kind in HALVES and (by_block := _factors_of_blocks(data, kind, rows, columns)) is not None:
        scaled = _scale_halves(data, kind, by_block)
        if np.isfinite(scaled.rounding):
            return scaled
    numbers = read_numbers(data, kind).astype(np.float64)
    numbers = numbers if rows is None else numbers * rows[:, None]
    numbers = numbers if columns is None else numbers * columns
    return store_numbers(numbers, kind if kind in FLOATS else None)


def store_numbers(numbers: Array, kind: Kind | None = None) -> Stored:
    """Return numbers as a file holds them, with the error that this makes as a share of their length."""
    if kind is None:
        kind = Kind.Q8_0 if numbers.shape[-1] % 32 == 0 else Kind.F16
    data = gguf.quants.quantize(numbers.astype(np.float32), kind)
    error = float(np.linalg.norm(read_numbers(data, kind) - numbers) / max(float(np.linalg.norm(numbers)), 1e-30))
    require(np.isfinite(error), f"scaled weights must be numbers that {kind.name} holds", "larger ones", "", BakeError)
    return Stored(data, kind, error)


def _factors_of_blocks(data: Array, kind: Kind, rows: Array | None, columns: Array | None) -> Array | None:
    """The factor of every block [rows or 1, blocks], or None where one differs within a block."""
    length, size = gguf.GGML_QUANT_SIZES[kind]
    each = np.ones(data.shape[-1] // size)
    if columns is not None:
        within = columns.reshape(-1, length)
        if (within != within[:, :1]).any():
            return None
        each = within[:, 0]
    return each[None] * (np.ones((1, 1)) if rows is None else rows[:, None])


def _scale_halves(data: Array, kind: Kind, factors: Array) -> Stored:
    out = data.reshape(len(data), -1, gguf.GGML_QUANT_SIZES[kind][1]).copy()
    worst = 0.0
    for at in HALVES[kind]:
        before = out[..., at : at + 2].copy().view(np.float16)[..., 0].astype(np.float64)
        wanted = before * factors
        with np.errstate(over="ignore"):
            after = wanted.astype(np.float16)
        out[..., at : at + 2] = after[..., None].view(np.uint8)
        there = wanted != 0
        with np.errstate(invalid="ignore"):
            worst = max(worst, float(np.max(np.abs(after[there] / wanted[there] - 1), initial=0.0)))
    return Stored(out.reshape(data.shape), kind, worst)
