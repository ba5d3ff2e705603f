import json
from pathlib import Path

import pytest
import torch
from calibrate import tiny
from safetensors.torch import save_file

from strop.calibrate.edge import Edge, EdgeError
from strop.calibrate.edge_file import KEY, EdgeFileError
from strop.calibrate.forms import FORMS
from strop.calibrate.identity import fingerprint, heads_of
from strop.records import DamagedFileError


def edge(model, form="constant", outputs=False, seed=3):
    draw = torch.Generator().manual_seed(seed)
    heads = heads_of(model)
    numbers = {name: 0.4 * torch.randn(count, FORMS[form].count, generator=draw) for name, count in heads.items()}
    scales = {name: 0.3 * torch.randn(count, generator=draw) for name, count in heads.items()} if outputs else {}
    return Edge.of(model, form, numbers, scales)


def logits(model):
    return model(tiny.prose(1, 40)[0]).logits


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outputs", [False, True])
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, form, outputs):
    model = tiny.model()
    made = edge(model, form, outputs)
    made.save(tmp_path / "edge.safetensors")
    read = Edge.load(tmp_path / "edge.safetensors")
    assert list(read.numbers) == list(made.numbers)
    with made.applied(model):
        wanted = logits(model)
    with read.applied(model):
        assert torch.equal(logits(model), wanted)
    if form != "none" or outputs:
        assert not torch.allclose(logits(model), wanted)
    assert (tmp_path / "edge.safetensors").stat().st_size < 8_000


def test_sharpened_takes_an_edge():
    from strop.hf import sharpened

    model = tiny.model()
    made = edge(model, "log-n", outputs=True)
    with made.applied(model):
        wanted = logits(model)
    with sharpened(model, made):
        assert torch.equal(logits(model), wanted)
    with pytest.raises(EdgeError, match="fingerprint"), sharpened(tiny.model(seed=1), made):
        pass


def test_zero_numbers_change_nothing():
    model = tiny.model()
    for form in FORMS:
        heads = heads_of(model)
        numbers = {name: torch.zeros(count, FORMS[form].count) for name, count in heads.items()}
        outputs = {name: torch.zeros(count) for name, count in heads.items()}
        with Edge.of(model, form, numbers, outputs).applied(model):
            found = logits(model)
        torch.testing.assert_close(found, logits(model), atol=2e-5, rtol=1e-5)


def test_a_head_is_scaled_and_no_other():
    model = tiny.model()
    made = edge(model)
    row = made.heads()[5]
    name, head = row["name"], row["head"]
    assert row["beta"] == pytest.approx(float(made.numbers[name][head, 0].exp()))
    assert row["done"] == ("sharpened" if row["beta"] > 1 else "softened")


@pytest.mark.parametrize("place", [0, 4, 30, 500, -5])
def test_a_changed_byte_is_refused(tmp_path: Path, place):
    path = tmp_path / "edge.safetensors"
    edge(tiny.model(), outputs=True).save(path)
    data = bytearray(path.read_bytes())
    data[place] ^= 0x11
    path.write_bytes(data)
    with pytest.raises((DamagedFileError, EdgeFileError)):
        Edge.load(path)


@pytest.mark.parametrize("keep", [0, 3, 8, 100, 0.5, 0.99])
def test_a_cut_file_is_refused(tmp_path: Path, keep):
    path = tmp_path / "edge.safetensors"
    edge(tiny.model()).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(DamagedFileError, match="must be a whole safetensors file"):
        Edge.load(path)


def test_pickles_and_foreign_files_are_refused(tmp_path: Path):
    path = tmp_path / "edge.safetensors"
    torch.save({"a": torch.zeros(3)}, path)
    with pytest.raises(DamagedFileError):
        Edge.load(path)
    save_file({"a": torch.zeros(3)}, path)
    with pytest.raises(EdgeFileError, match="must be an edge, got other safetensors"):
        Edge.load(path)
    with pytest.raises(EdgeFileError, match="no such file"):
        Edge.load(tmp_path / "nothing")


def test_a_newer_format_is_refused(tmp_path: Path):
    path = tmp_path / "edge.safetensors"
    save_file({"a.numbers": torch.zeros(3, 1)}, path, metadata={KEY: json.dumps({"format": 2, "form": "constant"})})
    with pytest.raises(EdgeFileError, match="got 2: a newer strop wrote it"):
        Edge.load(path)
    save_file({"a.numbers": torch.zeros(3, 1)}, path, metadata={KEY: "{"})
    with pytest.raises(DamagedFileError, match="must describe itself"):
        Edge.load(path)


def test_another_model_is_refused():
    made = edge(tiny.model())
    for other, words in (
        (tiny.model("qwen3"), "family llama, got qwen3"),
        (tiny.model(num_hidden_layers=3), "got 3 attention modules instead of 2"),
        (tiny.model(num_attention_heads=2, head_dim=8), "with 2 heads"),
        (tiny.model(seed=1), "weights of fingerprint"),
    ):
        with pytest.raises(EdgeError, match=words), made.applied(other):
            pass


def test_the_fingerprint_outlives_bfloat16_and_tells_fine_tunes_apart():
    model = tiny.model()
    before = fingerprint(model)
    assert fingerprint(tiny.model().to(torch.bfloat16)) == before
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight.mul_(1.01)
    assert fingerprint(model) != before
