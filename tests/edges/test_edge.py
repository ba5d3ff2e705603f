"""An edge: put on its model, saved and loaded; no other model takes it."""

from pathlib import Path

import pytest
import tiny
import torch

from strop.edges.edge import Edge
from strop.edges.forms import FORMS, read_form
from strop.edges.output_scales import OutputScales
from strop.edges.parts import PARTS
from strop.errors import EdgeError
from strop.patching import sharpened
from strop.patching.identity import heads_of


def edge(model, form="constant", outputs=False, seed=3):
    """An edge whose numbers are drawn about their start."""
    draw = torch.Generator().manual_seed(seed)
    parts = start(model, form, outputs)
    for part in (part for named in parts.values() for part in named.values()):
        for number in part.parameters():
            number.requires_grad_(False).add_(0.4 * torch.randn(number.shape, generator=draw))
    return Edge.of(model, parts)


def start(model, form, outputs=False):
    """The parts of a form as they are before anything is learned."""
    modules, terms = dict(model.named_modules()), read_form(form) + ((OutputScales.term,) if outputs else ())
    return {
        term: {name: PARTS[term].start(modules[name], heads, 2) for name, heads in heads_of(model).items()}
        for term in terms
    }


def logits(model):
    return model(tiny.prose(1, 40)[0]).logits


@pytest.mark.parametrize("form", [*FORMS, "pairs+log-n", "query+log-n"])
@pytest.mark.parametrize("outputs", [False, True])
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, form, outputs):
    model = tiny.model()
    made = edge(model, form, outputs)
    made.save(tmp_path / "edge.safetensors")
    read = Edge.load(tmp_path / "edge.safetensors")
    assert (read.form, read.heads_of, read.digest) == (form, made.heads_of, made.digest)
    with made.put_on(model):
        wanted = logits(model)
    with read.put_on(model):
        assert torch.equal(logits(model), wanted)
    if form != "none" or outputs:
        assert not torch.allclose(logits(model), wanted)
    assert (tmp_path / "edge.safetensors").stat().st_size < 16_000


def test_sharpened_takes_an_edge():
    model = tiny.model()
    made = edge(model, "log-n", outputs=True)
    with made.put_on(model):
        wanted = logits(model)
    with sharpened(model, made):
        assert torch.equal(logits(model), wanted)
    with pytest.raises(EdgeError, match="fingerprint"), sharpened(tiny.model(seed=1), made):
        pass


def test_an_edge_begins_with_nothing_changed():
    model = tiny.model()
    for form in FORMS:
        made = Edge.of(model, start(model, form, outputs=True))
        assert {row["done"] for row in made.heads()} == {"left alone"}
        with made.put_on(model):
            found = logits(model)
        torch.testing.assert_close(found, logits(model), atol=2e-5, rtol=1e-5)


def test_a_head_is_scaled_and_no_other():
    model = tiny.model()
    made = edge(model)
    row = made.heads()[5]
    name, head = row["name"], row["head"]
    assert row["beta"] == pytest.approx(float(made.parts["constant"][name].numbers[head, 0].exp()))
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
