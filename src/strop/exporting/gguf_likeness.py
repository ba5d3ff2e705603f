"""Whether a GGUF tensor holds a model's numbers, rounded, or those of a model that was trained on.

A block of a quantised tensor is a grid: values from `low` to `high`, a `step` apart. Rounding puts a number on the
nearest value of its block's grid, so a file made from this model holds for nearly every number the value nearest to
it: it is at most half a step off, or beyond an end. If the numbers were changed before they were rounded, some fall
nearer to another value, a share of them in proportion to the change:

    moved  =  share of numbers that this grid would round to another value  ≈  mean |change| / step
    change =  √(π/2) · mean(moved · step) / root mean square of the numbers      for a normal change

Where half of them moved, the distance itself says more. Quantisers that weigh numbers by importance, and a copy that
went by Q8_0, move a few too; tests/exporting/test_gguf_likeness.py holds them below what is refused. The two formats of
uneven grids (IQ4) are held to their widest gap, and show a change only where it is large.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import gguf
import numpy as np

from strop.exporting.gguf_blocks import read_numbers
from strop.pretrained.gguf_head import Array, Kind

QUANTS: dict[Kind, tuple[slice, int, int, int]] = {
    Kind.Q4_0: (slice(2, 18), 0, 255, 15),
    Kind.Q4_1: (slice(4, 20), 0, 255, 15),
    Kind.Q5_0: (slice(2, 22), 0, 255, 31),
    Kind.Q5_1: (slice(4, 24), 0, 255, 31),
    Kind.Q8_0: (slice(2, 34), 0x80, 0x7F, 255),
    Kind.Q2_K: (slice(16, 80), 0, 255, 3),
    Kind.Q3_K: (slice(0, 96), 0, 255, 7),
    Kind.Q4_K: (slice(16, 144), 0, 255, 15),
    Kind.Q5_K: (slice(16, 176), 0, 255, 31),
    Kind.Q6_K: (slice(0, 192), 0, 255, 63),
    Kind.IQ4_NL: (slice(2, 18), 0, 255, 10),  # its values are not evenly apart: the widest gap is a tenth of all
    Kind.IQ4_XS: (slice(8, 136), 0, 255, 10),
}
"""Where in a block its integers are, the bytes that make them smallest and largest, and the steps between."""

HALF = 2.0**-11
"""The rounding of a block's float16 scale, as a share."""

FLOATS = {Kind.F32: 2.0**-23, Kind.F16: 2.0**-10, Kind.BF16: 2.0**-7}
"""The step of a float, as a share of it."""


class BlockGrid(NamedTuple):
    """A tensor's numbers, and the grid that each was rounded to."""

    numbers: Array
    low: Array
    high: Array
    step: Array


def read_grid(data: Array, kind: Kind) -> BlockGrid | None:
    """Return the numbers of a tensor and their grids; None for a format whose grids are not known."""
    numbers = read_numbers(data, kind)
    if kind in FLOATS:
        far = np.full_like(numbers, np.inf)
        return BlockGrid(numbers, -far, far, FLOATS[kind] * np.abs(numbers))
    if kind not in QUANTS:
        return None
    at, least, most, steps = QUANTS[kind]
    ends = []
    for byte in (least, most):
        blocks = data.reshape(*data.shape[:-1], -1, gguf.GGML_QUANT_SIZES[kind][1]).copy()
        blocks[..., at] = byte
        ends.append(read_numbers(blocks.reshape(data.shape), kind))
    low, high = np.minimum(*ends), np.maximum(*ends)
    return BlockGrid(numbers, low, high, (high - low) / steps)


def measure_change(own: Array, data: Array, kind: Kind, slack: float = 0.0) -> float:
    """Return by which share a model's numbers were changed before they were rounded to these; 0 for none.

    `slack` is the rounding of the model's own numbers, as a share of each.
    """
    numbers = read_numbers(data, kind)
    size = math.sqrt(float(np.mean(np.square(own, dtype=np.float64)))) + 1e-30
    distance = math.sqrt(float(np.mean(np.square(numbers - own, dtype=np.float64)))) / size
    grid = read_grid(data, kind)
    if grid is None:
        return distance
    off, near = own - grid.numbers, grid.step / 4
    kept = np.abs(off) <= grid.step / 2 + (1.5 * HALF + slack) * np.abs(own) + 1e-7 * size
    kept |= (off > 0) & (grid.numbers >= grid.high - near)
    kept |= (off < 0) & (grid.numbers <= grid.low + near)
    if kept.mean() < 0.5:
        return distance
    return math.sqrt(math.pi / 2) * float(np.where(kept, 0.0, grid.step).mean()) / size
