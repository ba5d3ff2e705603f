"""Linear attention against the recurrence that gives it its name."""

import math

import pytest
import torch
import torch.nn.functional as F
from cases import HEADS
from further import inputs

import strop
from strop.normalisers import Linear


def phi(x):
    return F.elu(x) + 1


def test_causal_attention_is_the_recurrence_over_a_state(draw):
    q, k, v = inputs(draw, 9, 9)
    out = strop.attention(q, k, v, is_causal=True, normaliser="linear")
    state, norm = torch.zeros(2, HEADS, 8, 5, dtype=torch.float64), torch.zeros(2, HEADS, 8, dtype=torch.float64)
    for i in range(9):
        state = state + phi(k)[..., i, :, None] * v[..., i, None, :]
        norm = norm + phi(k)[..., i, :]
        f = phi(q)[..., i, :]
        expected = (f[..., None, :] @ state)[..., 0, :] / (f * norm).sum(-1, keepdim=True)
        torch.testing.assert_close(out[..., i, :], expected)


def test_one_row_by_hand():
    q, k = (
        torch.tensor([[1.0, -1.0]], dtype=torch.float64),
        torch.tensor([[0.0, 2.0], [-3.0, 0.5]], dtype=torch.float64),
    )
    one, two = 2 * 1 + math.exp(-1) * 3, 2 * math.exp(-3) + math.exp(-1) * 1.5
    out = strop.attention(q, k, torch.eye(2, dtype=torch.float64), normaliser=Linear())
    torch.testing.assert_close(out, torch.tensor([[one, two]], dtype=torch.float64) / (one + two))


def test_the_scale_cancels_and_zero_shares_nothing(draw):
    q, k, v = inputs(draw, 4, 7)
    once = strop.attention(q, k, v, normaliser=Linear(), scale=1.0)
    torch.testing.assert_close(strop.attention(q, k, v, normaliser=Linear(), scale=1e-3), once)
    assert (strop.attention(q, k, v, normaliser=Linear(), scale=0.0) == 0).all()


def test_order_of_keys_does_not_matter(draw):
    q, k, v = inputs(draw, 4, 7)
    turned = strop.attention(q, k.flip(-2), v.flip(-2), normaliser=Linear())
    torch.testing.assert_close(turned, strop.attention(q, k, v, normaliser=Linear()))


def test_strongly_negative_features_do_not_vanish_in_float32():
    q, k = torch.full((1, 2), -30.0), torch.tensor([[-30.0, -30.0], [-31.0, -31.0]])
    out = strop.attention(q, k, torch.eye(2), normaliser=Linear())
    torch.testing.assert_close(out, torch.tensor([[0.0, -1.0]]).softmax(-1), rtol=1e-5, atol=0)
    assert (phi(q) == 0).all()  # as elu + 1 written out would be


@pytest.mark.parametrize("x", [-2.0, 0.0, 3.0])
def test_the_slope_of_a_feature_is_that_of_elu(x):
    ours, theirs = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for _ in range(2))
    Linear().prepare_key(ours).backward()
    phi(theirs).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_negative_kernel_shows_in_its_row_alone():
    weights = Linear().weights(torch.tensor([[1.0, -1.0], [1.0, 3.0]]))
    assert weights[0].isnan().all()
    assert weights[1].tolist() == [0.25, 0.75]
