"""Stick-breaking attention against the stick itself, broken key by key."""

import math

import torch
from cases import rows
from further import randn
from hypothesis import given

import strop
from strop.normalisers import StickBreaking


def sigma(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def broken(e, seen):
    """Walk from the last key to the first with what is left of the stick."""
    left, shares = 1.0, [0.0] * len(e)
    for j in reversed(range(len(e))):
        if seen[j]:
            shares[j] = left * sigma(e[j])
            left *= sigma(-e[j])
    return shares


@given(rows())
def test_weights_are_the_broken_stick(case):
    logits, keep = case
    weights = StickBreaking().weights(logits, keep)
    seen = torch.ones_like(logits, dtype=torch.bool) if keep is None else keep
    expected = [broken(e, s) for e, s in zip(logits.tolist(), seen.tolist(), strict=True)]
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-15)
    assert (weights.sum(-1) <= 1 + 1e-12).all()


def test_the_remainder_is_what_nobody_took(draw):
    logits = randn(draw, 5, 11)
    remainder = 1 - StickBreaking().weights(logits).sum(-1)
    torch.testing.assert_close(remainder, torch.sigmoid(-logits).prod(-1))


def test_a_key_after_it_matters_and_a_key_before_it_does_not(draw):
    logits = randn(draw, 1, 6)
    weights = StickBreaking().weights(logits)
    changed = logits.clone()
    changed[0, 3] += 1
    after = StickBreaking().weights(changed)
    assert torch.equal(after[0, 4:], weights[0, 4:])
    assert (after[0, :3] < weights[0, :3]).all()
    assert not torch.allclose(StickBreaking().weights(logits.flip(-1)), weights.flip(-1), atol=1e-3)


def test_a_large_logit_leaves_later_shares_exact_in_float32():
    logits = torch.tensor([[0.5, 1e4, 0.5, -0.25]])
    expected = torch.tensor([broken(logits[0].tolist(), [True] * 4)])
    torch.testing.assert_close(StickBreaking().weights(logits), expected, rtol=1e-6, atol=0)


def test_a_strictly_causal_mask_is_the_callers(draw):
    q, k, v = (randn(draw, 1, 1, 5, 4) for _ in range(3))
    strict = torch.ones(5, 5, dtype=torch.bool).tril(-1)
    out = strop.attention(q, k, v, strict, normaliser="stick_breaking", scale=1.0)
    for i in range(5):
        e = (k[0, 0] @ q[0, 0, i]).tolist()
        shares = torch.tensor(broken(e, [j < i for j in range(5)]), dtype=torch.float64)
        torch.testing.assert_close(out[0, 0, i], shares @ v[0, 0])
