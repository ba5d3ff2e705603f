"""Lemma 2.1 and Propositions 3.1 and 3.2 as properties over drawn cases; the derived formulae at known points."""

import math

import pytest
import torch
from cases import rows
from hypothesis import given, settings
from hypothesis import strategies as st

from strop.sharpness import (
    RowStats,
    best_top_weight,
    dispersion_bounds,
    entropy_of,
    entropy_slope,
    horizon,
    spread_bound,
)

thetas = st.floats(0.05, 20)
thousands = settings(max_examples=2_000)


@thousands
@given(rows(masked=False), thetas)
def test_lemma_2_1_every_weight_lies_between_the_bounds(case, theta):
    logits, _ = case
    weights = (logits / theta).softmax(-1)
    low, high = dispersion_bounds(logits.shape[-1], RowStats.of(logits).spread, theta)
    assert (weights >= low[:, None] * (1 - 1e-9)).all()
    assert (weights <= high[:, None] * (1 + 1e-9)).all()


@thousands
@given(rows(masked=False), thetas)
def test_no_row_beats_the_best_case_and_the_best_row_reaches_it(case, theta):
    logits, _ = case
    n, spread = logits.shape[-1], RowStats.of(logits).spread
    best = best_top_weight(n, spread, theta)
    assert ((logits / theta).softmax(-1).amax(-1) <= best * (1 + 1e-9)).all()
    one_up = torch.zeros(len(spread), n, dtype=torch.float64)
    one_up[:, 0] = spread
    if n > 1:
        torch.testing.assert_close((one_up / theta).softmax(-1)[:, 0], best)


@given(st.floats(0, 30), st.floats(0.01, 0.99), st.floats(0.2, 5))
def test_the_horizon_is_the_last_n_that_reaches_the_weight(spread, share, theta):
    n = horizon(spread, share, theta)
    assert best_top_weight(n, spread, theta) >= share * (1 - 1e-9)
    assert best_top_weight(n + 1, spread, theta) < share * (1 + 1e-9)


def test_horizon_at_known_points():
    assert horizon(spread=5.7, top_weight=0.5) == 299.0
    assert horizon(0.0, 0.5) == 2.0
    assert horizon(1e4) == math.inf
    assert horizon(torch.tensor([0.0, 5.7])).tolist() == [2.0, 299.0]


@thousands
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 30), st.floats(0.01, 10))
def test_proposition_3_1_bounds_the_spread(seed, width, n, scale):
    source = torch.Generator().manual_seed(seed)
    Q, K = (scale * torch.randn(width, width, generator=source, dtype=torch.float64) for _ in range(2))
    y, X = (torch.randn(m, width, generator=source, dtype=torch.float64) for m in (1, n))
    logits = (y @ Q.T) @ (X @ K.T).T
    bound = spread_bound(Q, K, y.norm(), X.norm(dim=-1).max())
    assert RowStats.of(logits).spread.item() <= bound * (1 + 1e-9)


def test_proposition_3_1_is_reached_by_two_opposite_keys():
    eye = torch.eye(3, dtype=torch.float64)
    y, x = torch.tensor([[2.0, 0, 0]]), torch.tensor([[5.0, 0, 0], [-5.0, 0, 0]])
    assert spread_bound(eye, 3 * eye, 2.0, 5.0) == RowStats.of(y @ (3 * x).T).spread.item() == 60.0


@thousands
@given(rows(masked=False), st.floats(0.01, 5), st.floats(1.0, 5))
def test_proposition_3_2_sharpening_never_raises_the_entropy(case, beta, factor):
    logits, _ = case
    blunt, sharp = (entropy_of((b * logits).softmax(-1)) for b in (beta, beta * factor))
    assert (sharp <= blunt + 1e-9).all()


def test_entropy_slope_is_the_derivative(draw):
    logits = torch.randn(7, generator=draw, dtype=torch.float64)
    beta = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(entropy_of((beta * logits).softmax(-1)), beta)
    p = (beta * logits).softmax(-1).detach()
    variance = (p * logits.square()).sum() - (p * logits).sum().square()
    assert math.isclose(slope, entropy_slope(beta.detach(), variance), rel_tol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: horizon(-1.0), "spread must be at least 0, got -1.0"),
        (lambda: horizon(1.0, top_weight=0.0), r"top_weight must lie in \(0, 1\], got 0.0"),
        (lambda: horizon(1.0, theta=0.0), "theta must be greater than 0, got 0.0"),
        (lambda: horizon(math.nan), "spread must not be NaN"),
        (lambda: dispersion_bounds(0, 1.0), "n must be greater than 0, got 0"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
