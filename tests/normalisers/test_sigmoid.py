"""Sigmoid attention, key by key."""

import math

import torch
from cases import HEADS
from further import holes, moved, randn

from strop.normalisers import Sigmoid


def test_weights_are_the_sigmoid_of_each_visible_key(draw):
    logits, keep = 3 * randn(draw, 2, HEADS, 6, 6), holes(6)
    for normaliser in (Sigmoid(50).double(), moved(Sigmoid(50, learnable=True, heads=HEADS)).double()):
        weights = normaliser.weights(logits, keep)
        for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in logits.shape)).tolist():
            bias = normaliser.bias.expand(HEADS, 1)[h, 0].item()
            expected = 1 / (1 + math.exp(-logits[b, h, i, j].item() - bias)) if keep[i, j] else 0.0
            assert math.isclose(weights[b, h, i, j].item(), expected, rel_tol=1e-12)


def test_the_bias_makes_trained_length_keys_of_logit_zero_weigh_about_one():
    weights = Sigmoid(1000).weights(torch.zeros(1, 1000, dtype=torch.float64))
    torch.testing.assert_close(weights.sum(), torch.tensor(1000 / 1001, dtype=torch.float64), rtol=1e-6, atol=0)


def test_the_bias_is_learned_only_where_asked():
    assert not Sigmoid(8).bias.requires_grad
    assert Sigmoid(8, learnable=True, heads=3).bias.requires_grad
    assert Sigmoid(8, learnable=True, heads=3).bias.shape == (3, 1)


def test_order_and_number_of_other_keys_do_not_matter(draw):
    logits = randn(draw, 3, 9)
    weights = Sigmoid(9).weights(logits)
    assert torch.equal(Sigmoid(9).weights(logits.flip(-1)), weights.flip(-1))
    assert torch.equal(Sigmoid(9).weights(logits[:, :4]), weights[:, :4])
