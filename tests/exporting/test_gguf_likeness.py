"""Quantisation is told from training: by real quantisers of llama.cpp, and by a file of a model that was trained on."""

from __future__ import annotations

import ctypes
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from exporting import gguf_files, jobs
from exporting.test_gguf_blocks import made
from exporting.test_gguf_model import WIDE
from strop.errors import EdgeError
from strop.exporting.gguf_blocks import read_numbers
from strop.exporting.gguf_file import GGUFFile
from strop.exporting.gguf_layers import CHANGE
from strop.exporting.gguf_likeness import QUANTS, measure_change, read_grid
from strop.exporting.gguf_model import plan_gguf
from strop.pretrained.gguf_head import Array, Kind

UNEVEN = {Kind.IQ4_NL, Kind.IQ4_XS}
ids = lambda kind: kind.name  # noqa: E731


def quantise(numbers: Array, kind: Kind, importance: Array | None = None) -> Array:
    """What llama.cpp makes of numbers."""
    xllamacpp = pytest.importorskip("xllamacpp")
    run = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("xllamacpp*.so")))).ggml_quantize_chunk
    run.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = numbers.shape
    given, out = np.ascontiguousarray(numbers, np.float32), np.zeros((rows, columns // block * size), np.uint8)
    weights = None if importance is None else importance.astype(np.float32)
    run(
        int(kind),
        given.ctypes.data,
        out.ctypes.data,
        0,
        rows,
        columns,
        None if weights is None else weights.ctypes.data,
    )
    return out


@pytest.mark.parametrize("kind", QUANTS, ids=ids)
def test_every_number_lies_on_its_grid(kind: Kind) -> None:
    grid = read_grid(made(kind), kind)
    assert grid is not None
    assert (grid.numbers >= grid.low - 1e-6).all()
    assert (grid.numbers <= grid.high + 1e-6).all()
    if kind not in UNEVEN:
        places = (grid.numbers - grid.low)[grid.step > 0] / grid.step[grid.step > 0]
        np.testing.assert_allclose(places, places.round(), atol=1e-3)


@pytest.mark.parametrize("kind", QUANTS, ids=ids)
def test_rounding_is_no_change_and_training_is(kind: Kind) -> None:
    draw = np.random.default_rng(0)
    own = draw.standard_t(4, (64, 512)).astype(np.float32) * 0.05
    share = 0.15 if kind in UNEVEN else 0.03
    trained = own + share * own.std() * draw.normal(size=own.shape).astype(np.float32)
    once = read_numbers(quantise(own, Kind.Q8_0), Kind.Q8_0)
    for data in (quantise(own, kind), quantise(own, kind, draw.gamma(0.5, size=512) + 1e-3), quantise(once, kind)):
        assert measure_change(own, data, kind) < CHANGE
    assert measure_change(own, quantise(trained, kind), kind) > CHANGE


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.Q8_0, Kind.Q5_1, Kind.Q4_0], ids=ids)
def test_a_file_of_a_model_that_was_trained_on_is_refused(kind: Kind, tmp_path: Path) -> None:
    model, trained = jobs.model("llama", **WIDE), jobs.model("llama", **WIDE)
    for parameter in trained.parameters():
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
        parameter.data += 0.03 * parameter.data.std() * noise
    own = GGUFFile(gguf_files.write(tmp_path / "own.gguf", model, kind))
    plan_gguf(jobs.job(model, jobs.edge(model), tmp_path, file=own))
    other = GGUFFile(gguf_files.write(tmp_path / "other.gguf", trained, kind))
    with pytest.raises(EdgeError, match=rf"% before their rounding \(.*{kind.name}\)\. A model that was trained on"):
        plan_gguf(jobs.job(model, jobs.edge(model), tmp_path, file=other))
