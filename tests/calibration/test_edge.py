"""An edge: put on its model, saved and loaded; no other model takes it."""

from pathlib import Path

import pytest
import tiny
import torch

from strop.calibration.edge import Edge
from strop.calibration.forms import FORMS
from strop.errors import EdgeError
from strop.patching import sharpened
from strop.patching.identity import heads_of


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
    with made.put_on(model):
        wanted = logits(model)
    with read.put_on(model):
        assert torch.equal(logits(model), wanted)
    if form != "none" or outputs:
        assert not torch.allclose(logits(model), wanted)
    assert (tmp_path / "edge.safetensors").stat().st_size < 8_000


def test_sharpened_takes_an_edge():
    model = tiny.model()
    made = edge(model, "log-n", outputs=True)
    with made.put_on(model):
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
        with Edge.of(model, form, numbers, outputs).put_on(model):
            found = logits(model)
        torch.testing.assert_close(found, logits(model), atol=2e-5, rtol=1e-5)


def test_a_head_is_scaled_and_no_other():
    model = tiny.model()
    made = edge(model)
    row = made.heads()[5]
    name, head = row["name"], row["head"]
    assert row["beta"] == pytest.approx(float(made.numbers[name][head, 0].exp()))
    assert row["done"] == ("sharpened" if row["beta"] > 1 else "softened")


def test_another_model_is_refused():
    made = edge(tiny.model())
    for other, words in (
        (tiny.model("qwen3"), "family llama, got qwen3"),
        (tiny.model(num_hidden_layers=3), "got 3 attention modules instead of 2"),
        (tiny.model(num_attention_heads=2, head_dim=8), "with 2 heads"),
        (tiny.model(seed=1), "weights of fingerprint"),
    ):
        with pytest.raises(EdgeError, match=words), made.put_on(other):
            pass
