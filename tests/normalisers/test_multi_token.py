"""Multi-token attention against its sums written out as loops."""

import pytest
import torch
from cases import HEADS
from further import FURTHER, causal, holes, randn

from strop.normalisers import MultiToken


def convolved(logits, keep, kernel):
    """Σ_ab θ[a, b]·e_{i−a, j−b} for one head, in Python floats."""
    n, (c_q, c_k) = len(keep), kernel.shape
    out = torch.zeros(n, n, dtype=torch.float64)
    for i, j, a, b in torch.cartesian_prod(*(torch.arange(m) for m in (n, n, c_q, c_k))).tolist():
        row, column = i - a, j - (b - c_k // 2)
        if row >= 0 and 0 <= column < n and keep[row, column]:
            out[i, j] += kernel[a, b].item() * logits[row, column].item()
    return out


@pytest.mark.parametrize("mask", [causal, holes])
@pytest.mark.parametrize("group", [1, 2, None])
def test_weights_are_the_published_sums(mask, group, draw):
    n = 8
    normaliser = MultiToken(HEADS, c_q=3, c_k=5, group=group).double()
    with torch.no_grad():
        for parameter in normaliser.parameters():
            parameter.add_(0.3 * randn(draw, *parameter.shape))
    logits, keep = randn(draw, HEADS, n, n), mask(n)
    own = torch.stack([
        convolved(e, keep, kernel).masked_fill(~keep, -torch.inf).softmax(-1).nan_to_num()
        for e, kernel in zip(logits, normaliser.kernel, strict=True)
    ])  # fmt: skip
    size, expected = normaliser.mixing.shape[-1], torch.zeros_like(own)
    for h in range(HEADS):
        start = h - h % size
        for g in range(size):
            expected[h] += normaliser.mixing[h // size, h % size, g] * own[start + g]
    torch.testing.assert_close(normaliser.weights(logits, keep), expected)
    torch.testing.assert_close(normaliser.weights(logits.expand(3, 2, HEADS, n, n), keep)[2, 1], expected)


def test_it_starts_as_softmax_with_the_published_sizes(draw):
    normaliser = MultiToken(HEADS)
    assert normaliser.kernel.shape == (HEADS, 6, 11)
    assert normaliser.mixing.shape == (1, HEADS, HEADS)
    logits = randn(draw, 2, HEADS, 9, 9)
    softmax = logits.masked_fill(~causal(9), -torch.inf).softmax(-1)
    torch.testing.assert_close(normaliser.weights(logits, causal(9)), softmax)


def test_neighbours_reach_just_as_far_as_the_kernel(draw):
    logits = randn(draw, 1, 20, 20).requires_grad_()
    normaliser = MultiToken(1, c_q=3, c_k=5)
    torch.nn.init.ones_(normaliser.kernel)
    row, key = 12, 6
    (grad,) = torch.autograd.grad(normaliser._convolved(logits)[0, row, key], logits)
    reached = torch.zeros(20, 20, dtype=torch.bool)
    reached[row - 2 : row + 1, key - 2 : key + 3] = True
    assert torch.equal(grad[0] != 0, reached)


def test_a_key_hidden_from_one_head_stays_hidden_from_it(draw):
    keep = torch.stack([holes(6), causal(6), causal(6), causal(6)])
    weights = FURTHER["multi_token"]().weights(randn(draw, HEADS, 6, 6), keep)
    assert (weights[~keep] == 0).all()
