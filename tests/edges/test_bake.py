"""An edge folded into the weights is the patched model, or is refused with the reason."""

import pytest
import tiny
import torch

from edges.test_edge import edge, logits
from strop.errors import BakeError, EdgeError
from strop.patching.layout import Projection


@pytest.mark.parametrize("outputs", [False, True])
@pytest.mark.parametrize("family", ["llama", "gpt_oss", "gpt2", "gpt_neox", "phi3", "starcoder"])
def test_a_baked_edge_gives_the_patched_models_logits(family, outputs):
    model = tiny.model(family)
    made = edge(model, "constant", outputs)
    plain = logits(model)
    with made.put_on(model):
        wanted = logits(model)
    found = logits(made.bake(model))
    torch.testing.assert_close(found, wanted, atol=1e-5 * float(wanted.abs().max()), rtol=0)
    assert float((found - plain).abs().max()) > 0.01 * float(plain.abs().max())
    with pytest.raises(EdgeError, match="fingerprint"):
        made.bake(model)


def test_an_edge_of_outputs_alone_is_baked():
    model = tiny.model()
    made = edge(model, "none", True)
    with made.put_on(model):
        wanted = logits(model)
    torch.testing.assert_close(logits(made.bake(model)), wanted, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["qwen3", "gemma3"])
def test_a_shared_query_norm_takes_one_beta_and_refuses_several(family):
    model = tiny.model(family)
    several = edge(model)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(BakeError, match="query norm is shared"):
        several.bake(model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    one = edge(model, "layer")
    with one.put_on(model):
        wanted = logits(model)
    torch.testing.assert_close(logits(one.bake(model)), wanted, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("form", ["log-n", "power-n", "polynomial", "hold"])
def test_a_form_that_depends_on_the_input_says_why_not(form):
    model = tiny.model()
    with pytest.raises(BakeError, match="must not depend on the input"):
        edge(model, form).bake(model)


def test_soft_caps_and_unknown_layouts_say_why_not(monkeypatch):
    capped = tiny.model("gemma2")
    with pytest.raises(BakeError, match="soft cap"):
        edge(capped).bake(capped)
    model = tiny.model()
    monkeypatch.setattr("strop.patching.layout.FAMILIES", ())
    rule = r"layers\.0\.self_attn must keep its query weights where they are known for baking, got a layout of no known"
    with pytest.raises(BakeError, match=rule):
        edge(model).bake(model)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_model_that_differs_after_folding_is_put_back(monkeypatch, family):
    model = tiny.model(family)
    made = edge(model)
    before = logits(model)
    monkeypatch.setattr(Projection, "scale", lambda self, betas: self.layer.weight.mul_(2))
    with pytest.raises(BakeError, match="must give the patched model's logits"):
        made.bake(model)
    assert torch.equal(logits(model), before)
