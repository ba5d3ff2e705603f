"""Numbers of GGUF tensors, multiplied where they lie."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from strop.errors import BakeError
from strop.exporting.gguf_blocks import FLOATS, HALVES, read_numbers, scale_numbers, store_numbers
from strop.pretrained.gguf_head import Array, Kind

ROWS, COLUMNS = 6, 512


def made(kind: Kind, seed: int = 0) -> Array:
    """A tensor [6, 512] of a format: any bytes, but for scales of a usual size."""
    draw = np.random.default_rng(seed)
    if kind in FLOATS:
        return gguf.quants.quantize(draw.normal(size=(ROWS, COLUMNS)).astype(np.float32), kind)
    length, size = gguf.GGML_QUANT_SIZES[kind]
    data = draw.integers(0, 256, (ROWS, COLUMNS // length, size), dtype=np.uint8)
    for at in HALVES.get(kind, ()):
        scales = draw.uniform(0.001, 0.1, data.shape[:2]).astype(np.float16)
        data[..., at : at + 2] = scales[..., None].view(np.uint8)
    return data.reshape(ROWS, -1)


@pytest.mark.parametrize("kind", [*HALVES, *FLOATS], ids=lambda kind: kind.name)
def test_factors_of_rows_multiply_every_format_in_place(kind: Kind) -> None:
    data, factors = made(kind), np.array([0.3, 1.0, 2.7, -1.5, 1.01, 0.0])
    before = data.copy()
    stored = scale_numbers(data, kind, rows=factors)
    found, wanted = read_numbers(stored.data, stored.kind), read_numbers(data, kind) * factors[:, None]
    assert stored.kind == kind
    assert stored.data.shape == data.shape
    assert stored.rounding < {Kind.F32: 1e-7, Kind.BF16: 4e-3}.get(kind, 2**-11 + 1e-9)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2 * max(stored.rounding, 1e-7) * np.abs(wanted).max())
    assert np.array_equal(data, before)
    assert np.array_equal(found[1], read_numbers(data, kind)[1])


@pytest.mark.parametrize("kind", [*HALVES, *FLOATS], ids=lambda kind: kind.name)
def test_factors_of_columns_fit_where_a_block_is_within_a_head(kind: Kind) -> None:
    data, block = made(kind), gguf.GGML_QUANT_SIZES[kind][0]
    for head in (256, 64, 16):
        factors = np.linspace(0.5, 2, COLUMNS // head).repeat(head)
        stored = scale_numbers(data, kind, columns=factors)
        wanted = read_numbers(data, kind) * factors
        fits = kind in FLOATS or head % block == 0
        assert stored.kind == (kind if fits else Kind.Q8_0)
        off = np.linalg.norm(read_numbers(stored.data, stored.kind) - wanted) / np.linalg.norm(wanted)
        assert off < (1e-3 if fits and kind is not Kind.BF16 else 1e-2)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
def test_what_no_format_can_hold_is_refused() -> None:
    with pytest.raises(BakeError, match="must be numbers that Q8_0 holds, got larger ones"):
        scale_numbers(made(Kind.Q8_0), Kind.Q8_0, rows=np.full(ROWS, 1e9))


def test_a_row_that_is_no_multiple_of_32_becomes_f16() -> None:
    numbers = np.random.default_rng(0).normal(size=(4, 40)).astype(np.float32)
    stored = store_numbers(numbers)
    assert stored.kind == Kind.F16
    assert stored.rounding < 1e-3


def test_a_format_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(BakeError, match="must be one that the package gguf reads, got Q8_K"):
        scale_numbers(np.zeros((2, 292), np.uint8), Kind.Q8_K, rows=np.array([2.0, 1.0]))
