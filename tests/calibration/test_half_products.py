"""Products in bfloat16: near the model's own, with gradients, and gone after the block."""

import tiny
import torch
from torch import nn

from strop.calibration.half_products import HalfProducts


def test_a_product_and_its_gradient_are_rounded_once():
    layer = nn.Sequential(nn.Linear(48, 33)).requires_grad_(False)
    x, g = torch.randn(5, 48, requires_grad=True), torch.randn(5, 33)
    with HalfProducts(layer).on():
        out = layer(x)
    out.backward(g)
    weight = layer[0].weight.bfloat16().double()
    wanted = x.detach().bfloat16().double() @ weight.T + layer[0].bias.double()
    assert torch.allclose(out.double(), wanted, rtol=2**-7, atol=2**-7)
    assert not torch.allclose(out, layer(x), atol=1e-6)
    assert torch.allclose(x.grad.double(), g.bfloat16().double() @ weight, rtol=2**-7, atol=2**-7)


def test_the_head_stays_and_all_is_as_before_after_the_block():
    model, ids = tiny.model(), torch.arange(5, 25)[None]
    before = model(ids).logits
    half = HalfProducts(model)
    layers = [layer for layer, _ in half.weights]
    assert model.lm_head not in layers
    assert len(layers) == sum(type(one) is nn.Linear for one in model.modules()) - 1
    with half.on():
        inside = model(ids).logits
    assert 0 < float((inside - before).abs().max()) < 0.05 * float(before.abs().max())
    assert torch.equal(model(ids).logits, before)
    assert not any("forward" in layer.__dict__ for layer in layers)


def test_weights_of_other_dtypes_are_left_alone():
    assert HalfProducts(tiny.model().double()).weights == []
