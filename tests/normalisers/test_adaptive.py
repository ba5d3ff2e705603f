"""Adaptive temperature: the published function, its derived facts, and mistakes made in public re-implementations.

Each mistake is written out beside the test, so that the test is seen to tell it from the right version.
"""

import math

import pytest
import torch
from cases import rows
from hypothesis import given, settings

import strop
from strop.normalisers import PAPER_COEFFICIENTS
from strop.sharpness import RowStats, entropy_of


def published(logits):
    """The paper's function for one row of visible logits, in plain Python floats."""
    e = logits.double().tolist()
    top = max(e)
    p = [math.exp(x - top) for x in e]
    p = [x / sum(p) for x in p]
    H = -sum(x * math.log(x) for x in p if x > 0)
    a, b, c, d, f = PAPER_COEFFICIENTS
    beta = max(a * H**4 + b * H**3 + c * H**2 + d * H + f, 1.0) if H > 0.5 else 1.0
    q = [math.exp(beta * (x - top)) for x in e]
    return torch.tensor([x / sum(q) for x in q], dtype=torch.float64)


def rows_with_entropy(*entropies):
    """Statistics of rows that have just these entropies."""
    H = torch.tensor(entropies, dtype=torch.float64)
    n = torch.full(H.shape, 10**6)
    return RowStats(n, H * 0, H * 0, H, H * 0)


def beta_of(*entropies, **settings):
    return strop.normalisers.AdaptiveTemperature(**settings).inverse_temperature(rows_with_entropy(*entropies))


def wide_rows(draw):
    """Rows of 40 logits whose entropies spread over 0 … log 40."""
    scale = torch.logspace(-1, 1.5, 24, dtype=torch.float64)[:, None]
    return scale * torch.randn(24, 40, generator=draw, dtype=torch.float64)


@settings(max_examples=300)
@given(rows())
def test_weights_are_the_published_ones(case):
    logits, keep = case
    weights = strop.normalisers.AdaptiveTemperature().weights(logits, keep)
    for i in range(len(logits)):
        seen = torch.ones_like(logits[i], dtype=torch.bool) if keep is None else keep[i]
        if seen.any():
            torch.testing.assert_close(weights[i][seen], published(logits[i][seen]), rtol=1e-7, atol=1e-9)


def test_derived_facts_of_the_published_polynomial():
    crossing, peak, end = 0.8486, 4.4120, 5.94452
    normaliser = strop.normalisers.AdaptiveTemperature()
    assert normaliser.peak == pytest.approx(peak, abs=1e-3)
    assert normaliser.end == pytest.approx(end, abs=1e-4)
    assert beta_of(peak).item() == pytest.approx(2.4214, abs=1e-4)
    assert beta_of(0.5, 0.51, crossing - 1e-3).tolist() == [1.0, 1.0, 1.0]  # so the guard at 0.5 never binds
    assert beta_of(crossing + 1e-3) > 1
    assert beta_of(end - 1e-3) > 1
    assert beta_of(end + 1e-3, 7.0, 9.0).tolist() == [1.0, 1.0, 1.0]


def test_hold_keeps_the_peak_where_the_paper_lets_go():
    held = beta_of(2.0, 4.0, 4.412, 5.0, 6.0, 9.7, beyond_fit="hold")
    assert torch.equal(held[:2], beta_of(2.0, 4.0))
    torch.testing.assert_close(held[2:], torch.full((4,), 2.4214, dtype=torch.float64), atol=1e-4, rtol=0)
    outside = strop.normalisers.AdaptiveTemperature().outside_fit(rows_with_entropy(1.0, 5.94, 5.95, 9.0))
    assert outside.tolist() == [False, False, True, True]


def test_own_coefficients_and_threshold():
    assert beta_of(1.0, 3.0, coefficients=(2.0, 0.0), threshold=2.0).tolist() == [1.0, 6.0]
    rising = strop.normalisers.AdaptiveTemperature((2.0, 0.0), beyond_fit="hold")
    assert rising.peak == rising.end == math.inf


@settings(max_examples=300)
@given(rows())
def test_the_largest_key_stays_the_largest(case):
    logits, keep = case
    weights = strop.normalisers.AdaptiveTemperature().weights(logits, keep)
    top = RowStats.of(logits, keep).max[:, None]
    best = weights.amax(-1, keepdim=True)
    seen = torch.ones_like(logits, dtype=torch.bool) if keep is None else keep
    assert ((logits == top) & seen <= (weights == best)).all()


def test_mistake_reversed_powers(draw):
    logits = wide_rows(draw)
    right = strop.normalisers.AdaptiveTemperature().weights(logits)
    wrong = strop.normalisers.AdaptiveTemperature(PAPER_COEFFICIENTS[::-1]).weights(logits)
    expected = torch.stack([published(row) for row in logits])
    torch.testing.assert_close(right, expected)
    assert not torch.allclose(wrong, expected, atol=1e-3)


def test_mistake_polynomial_taken_as_theta(draw):
    logits = wide_rows(draw)
    stats = RowStats.of(logits)
    right = strop.normalisers.AdaptiveTemperature()
    mistaken = (logits / right.inverse_temperature(stats)[:, None]).softmax(-1)
    # sharpening lowers the entropy (Proposition 3.2); the mistake raises it
    assert (entropy_of(right.weights(logits)) <= stats.entropy + 1e-9).all()
    assert (entropy_of(mistaken) > stats.entropy + 1e-3).any()


def test_mistake_masks_of_minus_infinity_give_nan_entropy_and_no_sharpening():
    logits = torch.linspace(0, 1, 30, dtype=torch.float64)[None]
    keep = torch.arange(30) < 20
    naive = logits.masked_fill(~keep, -torch.inf).softmax(-1)
    entropy = -(naive * naive.log()).sum(-1)
    assert entropy.isnan().all()  # and NaN > 0.5 is False: β = 1, silently
    stats = RowStats.of(logits, keep)
    assert strop.normalisers.AdaptiveTemperature().inverse_temperature(stats) > 1.5
    # should a NaN arrive all the same, it shows
    assert beta_of(math.nan).isnan().all()


def test_mistake_nan_gradients_under_masks():
    logits = torch.linspace(0, 1, 30, dtype=torch.float64)[None].requires_grad_()
    keep = torch.arange(30) < 20
    naive = logits.masked_fill(~keep, -torch.inf).softmax(-1)
    (grad,) = torch.autograd.grad(torch.where(naive > 0, naive * naive.log(), 0.0).sum(), logits)
    assert grad.isnan().any()
    (grad,) = torch.autograd.grad(strop.normalisers.AdaptiveTemperature().weights(logits, keep).square().sum(), logits)
    assert grad.isfinite().all()
    assert (grad[:, 20:] == 0).all()
    assert (grad[:, :20] != 0).any()


def test_mistake_tiny_constants_underflow_in_half_precision():
    logits = torch.zeros(1, 64, dtype=torch.float16)
    logits[0, 0] = 30.0
    p = logits.softmax(-1)
    assert (p * (p + torch.tensor(1e-9, dtype=torch.float16)).log()).sum().isnan()
    assert strop.normalisers.AdaptiveTemperature().weights(logits).isfinite().all()


def test_mistake_clamped_logits_let_hidden_keys_through():
    logits = torch.full((1, 10), -50.0, dtype=torch.float64)
    keep = torch.arange(10) < 5
    clamped = logits.masked_fill(~keep, -torch.inf).clamp(min=-50.0).softmax(-1)
    assert (clamped[0, 5:] > 0.05).all()
    assert (strop.normalisers.AdaptiveTemperature().weights(logits, keep)[0, 5:] == 0).all()


def test_mistake_padded_items_are_attended_to(draw):
    q, k, v = (torch.randn(1, 1, n, 8, generator=draw, dtype=torch.float64) for n in (1, 20, 20))
    normaliser = strop.normalisers.AdaptiveTemperature()
    alone = strop.attention(q, k, v, normaliser=normaliser)
    padded_k, padded_v = (torch.nn.functional.pad(x, (0, 0, 0, 12)) for x in (k, v))
    hidden = torch.arange(32)[None] < 20
    for impl in ("reference", "streaming", "fused_calls"):
        padded = strop.attention(q, padded_k, padded_v, attn_mask=hidden, normaliser=normaliser, impl=impl)
        torch.testing.assert_close(padded, alone)
    unmasked = strop.attention(q, padded_k, padded_v, normaliser=normaliser)
    assert not torch.allclose(unmasked, alone, atol=1e-3)


def test_mistake_entropy_summed_over_the_batch(draw):
    logits = wide_rows(draw)
    together = strop.normalisers.AdaptiveTemperature().weights(logits)
    alone = torch.cat([strop.normalisers.AdaptiveTemperature().weights(row[None]) for row in logits])
    torch.testing.assert_close(together, alone)
    summed = strop.normalisers.AdaptiveTemperature()
    total = RowStats.of(logits).map(lambda field: field.sum().expand(len(logits)))
    assert not torch.allclose(summed.inverse_temperature(total), summed.inverse_temperature(RowStats.of(logits)))


def test_mistake_n_counted_over_hidden_keys(draw):
    logits = torch.randn(1, 64, generator=draw, dtype=torch.float64)
    keep = torch.arange(64)[None] < 8
    right = strop.normalisers.SSMax(init=1.0).weights(logits, keep)[:, :8]
    torch.testing.assert_close(right, (math.log(8) * logits[:, :8]).softmax(-1))
    assert not torch.allclose(right, (math.log(64) * logits[:, :8]).softmax(-1), atol=1e-3)


def test_mistake_log_n_added_is_a_no_op(draw):
    logits = torch.randn(1, 64, generator=draw, dtype=torch.float64)
    added = (logits + math.log(64)).softmax(-1)
    torch.testing.assert_close(added, logits.softmax(-1))
    assert not torch.allclose(strop.normalisers.SSMax(init=1.0).weights(logits), added, atol=1e-3)


@pytest.mark.parametrize("impl", ["reference", "streaming", "fused_calls"])
def test_mistake_scaling_masked_scores_on_the_first_causal_row(impl, draw):
    assert (math.log(1) * torch.tensor(-torch.inf)).isnan()
    q, k, v = (torch.randn(1, 1, 9, 8, generator=draw).requires_grad_() for _ in range(3))
    out = strop.attention(q, k, v, is_causal=True, normaliser=strop.normalisers.SSMax(init=1.0), impl=impl)
    torch.testing.assert_close(out[..., 0, :], v[..., 0, :])
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    assert all(grad.isfinite().all() for grad in grads)
