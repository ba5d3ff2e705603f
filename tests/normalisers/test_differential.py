"""Differential attention against two calls of torch's own attention with values of double width."""

import torch
import torch.nn.functional as F
from cases import HEADS
from further import FURTHER, causal, holes, inputs, randn

import strop
from strop.normalisers import Differential


def test_attention_is_the_difference_of_two_calls_on_wide_values(draw):
    q, k, v = inputs(draw, 9, 11)
    normaliser = FURTHER["differential"]().double()
    keep = torch.rand(9, 11, generator=draw) < 0.7
    out = strop.attention(q, k, v, keep, normaliser=normaliser)
    for h in range(HEADS // 2):
        wide = torch.cat([v[:, 2 * h], v[:, 2 * h + 1]], dim=-1)
        one, two = (F.scaled_dot_product_attention(q[:, i], k[:, i], wide, keep) for i in (2 * h, 2 * h + 1))
        expected = one - normaliser.lambda_[h, 0, 0] * two
        torch.testing.assert_close(torch.cat([out[:, 2 * h], out[:, 2 * h + 1]], dim=-1), expected)


def test_rows_sum_to_one_less_lambda(draw):
    weights = Differential(HEADS, init=0.3).double().weights(randn(draw, HEADS, 5, 7))
    torch.testing.assert_close(weights.sum(-1), torch.full((HEADS, 5), 0.7, dtype=torch.float64), rtol=0, atol=1e-7)
    assert (weights < 0).any()


def test_what_both_heads_see_alike_cancels(draw):
    logits = randn(draw, 1, 4, 6).expand(2, 4, 6)
    weights = Differential(2, init=1.0).weights(logits)
    torch.testing.assert_close(weights, torch.zeros_like(weights))


def test_pairs_do_not_mix(draw):
    logits = randn(draw, HEADS, 5, 5)
    changed = logits.clone()
    changed[2] += randn(draw, 5, 5)
    before, after = (Differential(HEADS).weights(x, causal(5)) for x in (logits, changed))
    assert torch.equal(after[:2], before[:2])
    assert (after[2:] != before[2:]).any((1, 2)).all()


def test_a_key_hidden_from_one_head_stays_hidden_from_it(draw):
    keep = torch.stack([holes(6), causal(6)])
    weights = Differential(2).weights(randn(draw, 2, 6, 6), keep)
    assert (weights[~keep] == 0).all()
