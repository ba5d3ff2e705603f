"""Temperatures by the length or the query that were added later: PowerN, RelativeLogN, SelectiveTemperature."""

import math

import pytest
import torch
from cases import HEAD_DIM, HEADS, NORMALISERS
from further import holes, inputs, moved, randn

import strop
from strop.kernels import native
from strop.normalisers import PowerN, RelativeLogN, SelectiveTemperature
from strop.sharpness import RowStats


def beta(normaliser, *n):
    return normaliser.inverse_temperature(RowStats.of_counts(torch.tensor(n), torch.float64)).tolist()


def test_power_n_is_a_power_of_the_ratio():
    assert beta(PowerN(16), 1, 16, 999) == [1.0, 1.0, 1.0]
    got = beta(PowerN(16, init=0.75).double(), 0, 1, 16, 100, 16384)
    assert got == pytest.approx([16**-0.75, 16**-0.75, 1.0, (100 / 16) ** 0.75, 1024**0.75], rel=1e-12)


def test_power_n_learns_a_power_for_each_head(draw):
    normaliser = moved(PowerN(4, HEADS)).double()
    logits, keep = randn(draw, 2, HEADS, 6, 6), holes(6)
    weights = normaliser.weights(logits, keep)
    for h, i in torch.cartesian_prod(torch.arange(HEADS), torch.arange(6)).tolist():
        seen = keep[i]
        factor = (max(1, seen.sum().item()) / 4) ** normaliser.exponent[h, 0].item()
        torch.testing.assert_close(weights[:, h, i][:, seen], (factor * logits[:, h, i][:, seen]).softmax(-1))
    assert torch.autograd.gradcheck(lambda *_: normaliser.weights(logits, keep), normaliser.exponent)


def test_relative_log_n_leaves_trained_lengths_alone():
    assert beta(RelativeLogN(16), 0, 1, 8, 16) == [1.0] * 4
    assert beta(RelativeLogN(16), 17, 160) == pytest.approx([1 + math.log(17 / 16), 1 + math.log(10)])
    assert beta(RelativeLogN(16, slope=0.5), 160) == pytest.approx([1 + 0.5 * math.log(10)])


def test_selective_temperature_scales_each_query_by_its_own_tau(draw):
    q, k, v = inputs(draw, 5, 7)
    assert torch.equal(SelectiveTemperature(HEADS, HEAD_DIM).prepare_query(q, torch.tensor(7)), q)
    normaliser = NORMALISERS["selective_temperature"]().double()
    out = strop.attention(q, k, v, normaliser=normaliser)
    for b, h, i in [(0, 0, 0), (1, 3, 4), (0, 2, 1)]:
        tau = 1 + math.tanh(sum((q[b, h, i] * normaliser.tau_weight[h, 0]).tolist()))
        expected = (tau * k[b, h] @ q[b, h, i] / math.sqrt(HEAD_DIM)).softmax(0) @ v[b, h]
        torch.testing.assert_close(out[b, h, i], expected)


def test_all_three_run_in_every_implementation(draw):
    tensors = inputs(draw, 6, 6, torch.float32)
    for name in ("power_n", "relative_log_n", "selective_temperature"):
        normaliser = NORMALISERS[name]()
        expected = strop.attention(*tensors, is_causal=True, normaliser=normaliser, impl="reference")
        for impl in ("native", "fused_calls", "streaming"):
            if impl == "native" and not native.status().loaded:
                continue
            got = strop.attention(*tensors, is_causal=True, normaliser=normaliser, impl=impl)
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
