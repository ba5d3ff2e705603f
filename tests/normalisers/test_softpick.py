"""Softpick against its formula with exact exponentials, and where plain evaluation fails."""

import math
from fractions import Fraction

import torch
from cases import rows
from hypothesis import given

from strop.normalisers import Softpick


def published(e):
    """The formula for one row, exponentials as exact fractions of the floats that math.expm1 gives."""
    parts = [Fraction(math.expm1(x)) for x in e]
    total = sum(abs(x) for x in parts) + Fraction(1e-8)
    return [float(max(x, Fraction(0)) / total) for x in parts]


@given(rows())
def test_weights_are_the_published_ones(case):
    logits, keep = case
    weights = Softpick().weights(logits, keep)
    for i in range(len(logits)):
        seen = torch.ones_like(logits[i], dtype=torch.bool) if keep is None else keep[i]
        assert (weights[i][~seen] == 0).all()
        if seen.any() and logits[i][seen].max() < 700:  # where expm1 is finite
            expected = torch.tensor(published(logits[i][seen].tolist()), dtype=torch.float64)
            torch.testing.assert_close(weights[i][seen], expected, rtol=1e-10, atol=1e-14)


def test_negative_logits_are_exactly_zero_but_still_count():
    weights = Softpick().weights(torch.tensor([[1.0, -2.0, 0.0]], dtype=torch.float64))
    assert (weights[0, 1:] == 0).all()
    rise, fall = math.e - 1, 1 - math.exp(-2)
    assert math.isclose(weights[0, 0].item(), rise / (rise + fall + 1e-8))
    assert (Softpick().weights(torch.full((1, 5), -3.0)) == 0).all()


def test_tiny_logits_keep_their_digits_in_float32():
    logits = torch.tensor([[3.3e-6, 1e-6, -2.1e-6]])
    expected = torch.tensor([published(logits[0].double().tolist())])
    torch.testing.assert_close(Softpick().weights(logits), expected.float(), rtol=1e-5, atol=0)
    plain = logits.exp() - 1
    plain = plain.relu() / (plain.abs().sum() + 1e-8)
    assert not torch.allclose(plain, expected.float(), rtol=1e-2)


def test_huge_logits_share_as_softmax_does():
    logits = torch.tensor([[1e4, 1e4 - 1, -1e4]])
    expected = torch.tensor([[0.0, -1.0, -torch.inf]]).softmax(-1)
    torch.testing.assert_close(Softpick().weights(logits), expected)


def test_order_of_keys_does_not_matter(draw):
    logits = torch.randn(4, 9, generator=draw, dtype=torch.float64)
    torch.testing.assert_close(Softpick().weights(logits.flip(-1)), Softpick().weights(logits).flip(-1))
