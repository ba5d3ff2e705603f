"""Quick passes: the model's own values and gradients to rounding, by our kernels, and gone after the block."""

import families
import pytest
import tiny
import torch

from strop.calibration.numbers import Numbers
from strop.calibration.quick_passes import quick_passes

IDS = torch.arange(5, 45)[None]


def gradients(model, form):
    torch.manual_seed(0)
    numbers = Numbers(model, form, outputs=True, rank=2)
    with torch.no_grad():
        for number in numbers.parameters():
            number.normal_(std=0.1)
    with numbers.on(model):
        out = model(IDS, use_cache=False).logits
    out.square().mean().backward()
    return out.detach(), torch.cat([number.grad.flatten() for number in numbers.parameters()])


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("form", ["constant", "query", "pairs+log-n"])
def test_values_and_gradients_are_the_models_own(family, form):
    model = tiny.model(family).requires_grad_(False)
    wanted = gradients(model, form)
    with quick_passes(model, half=False):
        assert model.config._attn_implementation == "strop"
        found = gradients(model, form)
    for one, truth in zip(found, wanted, strict=True):
        assert torch.allclose(one, truth, atol=2e-5 * float(truth.abs().max()))
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(gradients(model, form)[1], wanted[1])


def test_products_are_in_bfloat16_where_asked():
    model = tiny.model()
    before = model(IDS).logits
    with quick_passes(model, half=True):
        inside = model(IDS).logits
    assert 1e-5 < float((inside - before).abs().max()) < 0.05 * float(before.abs().max())
    assert torch.equal(model(IDS).logits, before)


def test_models_elsewhere_keep_their_attention():
    away = families.fresh("llama").to("meta")
    with quick_passes(away, half=False):
        assert away.config._attn_implementation == "sdpa"
