"""Selective attention against x-transformers and against its formula in loops."""

import math

import pytest
import torch
from cases import HEADS
from further import causal, holes, randn
from x_transformers.attend import selective_attn

from strop.normalisers import Selective


def published(logits, keep):
    """Softmax(e − F) of logits [heads, n, n] as lists, F from head 0."""
    heads, n = len(logits), len(keep)
    first = min((j for j in range(n) if any(row[j] for row in keep)), default=None)
    S = [[max(0.0, logits[0][i][j]) if keep[i][j] and j not in (i, first) else 0.0 for j in range(n)] for i in range(n)]
    weights = torch.zeros(heads, n, n, dtype=torch.float64)
    for h, i in torch.cartesian_prod(torch.arange(heads), torch.arange(n)).tolist():
        seen = [j for j in range(n) if keep[i][j]]
        share = {j: math.exp(logits[h][i][j] - sum(S[k][j] for k in range(i))) for j in seen}
        for j in seen:
            weights[h, i, j] = share[j] / sum(share.values())
    return weights


@pytest.mark.parametrize("mask", [causal, holes])
def test_weights_are_the_published_ones(mask, draw):
    logits, keep = 2 * randn(draw, 2, HEADS, 9, 9), mask(9)
    weights = Selective().weights(logits, keep)
    for b in range(2):
        torch.testing.assert_close(weights[b], published(logits[b].tolist(), keep.tolist()))


def test_scores_are_x_transformers(draw):
    logits, keep = 2 * randn(draw, 2, HEADS, 12, 12), causal(12)
    theirs = selective_attn(logits.masked_fill(~keep, -torch.inf)).softmax(-1)
    torch.testing.assert_close(Selective().weights(logits, keep), theirs)
    assert not torch.allclose(logits.masked_fill(~keep, -torch.inf).softmax(-1), theirs, atol=0.05)


def test_left_padding_is_as_if_it_were_not_there(draw):
    logits = 2 * randn(draw, 1, HEADS, 9, 9)
    padded = Selective().weights(logits, causal(9) & (torch.arange(9) >= 3))
    alone = Selective().weights(logits[..., 3:, 3:], causal(6))
    torch.testing.assert_close(padded[..., 3:, 3:], alone)
    assert (padded[..., :3, :] == 0).all()


def test_masks_of_single_heads(draw):
    """What is hidden from head 0 cannot be marked by it."""
    logits = randn(draw, 1, HEADS, 6, 6).abs()
    keep = causal(6).expand(1, HEADS, 6, 6).clone()
    keep[:, 0] = torch.eye(6, dtype=torch.bool)
    torch.testing.assert_close(Selective().weights(logits, keep), logits.masked_fill(~keep, -torch.inf).softmax(-1))


def test_one_head_needs_no_axis_of_its_own(draw):
    logits = randn(draw, 7, 7)
    torch.testing.assert_close(Selective().weights(logits, causal(7)), Selective().weights(logits[None], causal(7))[0])
