"""Threshold relative attention against its formula in loops over Python floats."""

import math

import pytest
import torch
from cases import HEAD_DIM, HEADS
from further import FURTHER, causal, holes, inputs, randn

import strop
from strop.normalisers import TRA


def normed(x):
    size = math.sqrt(sum(a * a for a in x) / len(x) + 1e-6)
    return [a / size for a in x]


def published(q, keys, gate, seen, scale):
    """One row: query, all keys, the head's gate vector, which keys the row may see."""
    q, keys = normed(q), [normed(k) for k in keys]
    S = [max(0.0, scale * sum(a * b for a, b in zip(q, k, strict=True))) for k in keys]
    kept = [s > 0 and visible for s, visible in zip(S, seen, strict=True)]
    forget = -math.log1p(math.exp(-sum(a * b for a, b in zip(q, gate, strict=True))))
    total = [S[j] + forget * sum(kept[j:]) if kept[j] else -math.inf for j in range(len(S))]
    if not any(kept):
        return [0.0] * len(S)
    share = [math.exp(t - max(total)) for t in total]
    return [s / sum(share) for s in share]


@pytest.mark.parametrize("mask", [causal, holes])
def test_weights_are_the_published_ones(mask, draw):
    n = 9
    q, k, _ = inputs(draw, n, n)
    keep, normaliser = mask(n), FURTHER["tra"]().double()
    value = torch.eye(n, dtype=torch.float64).expand(2, HEADS, n, n)
    weights = strop.attention(q, k, value, keep, normaliser=normaliser, scale=1.5)
    for b, h, i in torch.cartesian_prod(torch.arange(2), torch.arange(HEADS), torch.arange(n)).tolist():
        gate = normaliser.gate_weight[h, 0].tolist()
        expected = published(q[b, h, i].tolist(), k[b, h].tolist(), gate, keep[i].tolist(), 1.5)
        torch.testing.assert_close(weights[b, h, i], torch.tensor(expected, dtype=torch.float64))


def test_distance_counts_kept_keys_only():
    logits = torch.tensor([[[1.0, -5.0, 0.0, 1.0, -1.0, 1.0]]], dtype=torch.float64)
    weights = TRA(1, 2).weights_of(torch.zeros(1, 1, 2, dtype=torch.float64), logits)
    expected = torch.tensor([[[0.25, 0, 0, 0.5, 0, 1.0]]], dtype=torch.float64) / 1.75  # a gate of ½ a kept key
    torch.testing.assert_close(weights, expected)
    assert (TRA(1, 2).weights_of(torch.zeros(1, 1, 2), -logits.abs().float()) == 0).all()


def test_size_of_query_and_key_does_not_matter(draw):
    q, k, v = inputs(draw, 6, 6)
    normaliser = FURTHER["tra"]().double()
    before = strop.attention(q, k, v, is_causal=True, normaliser=normaliser)
    torch.testing.assert_close(
        strop.attention(300 * q, 7 * k, v, is_causal=True, normaliser=normaliser), before, rtol=1e-4, atol=1e-5
    )


def test_without_the_query_it_is_not_defined(draw):
    with pytest.raises(NotImplementedError, match="TRA needs the query beside the logits"):
        TRA(HEADS, HEAD_DIM).weights(randn(draw, HEADS, 3, 3))
