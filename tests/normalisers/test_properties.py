"""What holds for every normaliser: simplex, permutation, shift, "hidden is absent", rows that see nothing."""

import copy
import pickle

import pytest
import torch
from cases import HEADS, NORMALISERS, rows
from hypothesis import given, settings
from hypothesis import strategies as st

import strop
from strop.normalisers import NAMES, by_name

every = pytest.mark.parametrize("kind", NORMALISERS)
few = settings(max_examples=25)
SINKS = {"off_by_one", "sink", "adaptive with sink"}


def per_head(logits, keep):
    """[n_q, n_k] → the same rows for every head."""
    return logits.expand(1, HEADS, *logits.shape), keep


@every
@few
@given(case=rows())
def test_weights_lie_on_the_simplex(kind, case):
    logits, keep = per_head(*case)
    weights = NORMALISERS[kind]().weights(logits, keep)
    assert weights.shape == logits.shape
    assert (weights >= 0).all()
    sees = torch.ones(logits.shape[-2]) if keep is None else keep.any(-1).float()
    total = weights.sum(-1)
    if kind in SINKS:
        assert (total <= sees + 1e-6).all()
    else:
        torch.testing.assert_close(total, sees.to(total).expand_as(total), rtol=0, atol=1e-6)


@every
@few
@given(case=rows(), seed=st.integers(0, 2**31))
def test_order_of_keys_does_not_matter(kind, case, seed):
    if kind == "hard" and len(case[0].unique()) < case[0].numel():
        return  # the first of equals wins, by definition
    logits, keep = per_head(*case)
    order = torch.randperm(logits.shape[-1], generator=torch.Generator().manual_seed(seed))
    normaliser = NORMALISERS[kind]()
    moved = normaliser.weights(logits[..., order], None if keep is None else keep[..., order])
    torch.testing.assert_close(moved, normaliser.weights(logits, keep)[..., order], rtol=0, atol=1e-7)


@every
@few
@given(case=rows(), shift=st.floats(-5, 5))
def test_adding_a_number_to_a_row_changes_nothing(kind, case, shift):
    if kind in SINKS:
        return  # a sink is a fixed level: what counts there is how far the row stands above it
    logits, keep = per_head(*case)
    if len(case[0].unique()) < case[0].numel():
        return  # rounding may break or make ties
    normaliser = NORMALISERS[kind]()
    before, after = normaliser.weights(logits, keep), normaliser.weights(logits + shift, keep)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)


@every
@few
@given(case=rows())
def test_a_hidden_key_might_as_well_be_absent(kind, case):
    logits, keep = case
    keep = torch.rand(logits.shape[-1], generator=torch.Generator().manual_seed(3)) < 0.6
    normaliser = NORMALISERS[kind]()
    wild = torch.where(keep, logits, torch.tensor([torch.nan, torch.inf, 1e30])[torch.arange(len(keep)) % 3])
    hidden = normaliser.weights(*per_head(wild, keep.expand_as(logits)))
    absent = normaliser.weights(*per_head(logits[:, keep], None))
    torch.testing.assert_close(hidden[..., keep], absent, rtol=0, atol=1e-9)
    assert (hidden[..., ~keep] == 0).all()


@every
def test_gradients_are_finite_with_rows_that_see_nothing(kind, draw):
    logits = torch.randn(2, HEADS, 5, 7, generator=draw, requires_grad=True)
    keep = (torch.rand(5, 7, generator=draw) < 0.5) & (torch.arange(5) != 2)[:, None]
    normaliser = NORMALISERS[kind]()
    weights = normaliser.weights(logits, keep)
    if not weights.requires_grad:
        assert kind in ("hard", "average_hard")
        return
    trained = [p for p in normaliser.parameters() if p.requires_grad]
    grads = torch.autograd.grad(weights.square().sum(), [logits, *trained], allow_unused=True)
    assert all(g is None or g.isfinite().all() for g in grads)
    assert (grads[0][..., ~keep] == 0).all()


@every
def test_a_visible_nan_shows_in_its_row_alone(kind):
    logits = torch.zeros(1, HEADS, 3, 5)
    logits[..., 1, 2] = torch.nan
    weights = NORMALISERS[kind]().weights(logits)
    assert weights[..., 1, :].isnan().any(-1).all()
    assert not weights[..., [0, 2], :].isnan().any()


@every
def test_vmap_gives_what_a_loop_gives(kind, draw):
    logits = torch.randn(6, HEADS, 4, 9, generator=draw)
    normaliser = NORMALISERS[kind]()
    together = torch.func.vmap(normaliser.weights)(logits)
    torch.testing.assert_close(together, torch.stack([normaliser.weights(x) for x in logits]))


@every
def test_state_dict_pickle_and_copy_round_trips(kind, draw):
    normaliser = NORMALISERS[kind]()
    logits = torch.randn(1, HEADS, 3, 9, generator=draw)
    fresh = NORMALISERS[kind]()
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.zero_()
    fresh.load_state_dict(normaliser.state_dict())
    for other in (fresh, pickle.loads(pickle.dumps(normaliser)), copy.deepcopy(normaliser)):
        assert torch.equal(other.weights(logits), normaliser.weights(logits))
        assert repr(other) == repr(normaliser)


@pytest.mark.parametrize("kind", ["ssmax", "sink", "qassmax", "asentmax", "entmax 1.3"])
def test_learned_normalisers_train(kind, draw):
    q, k, v = (torch.randn(2, HEADS, 12, 8, generator=draw) for _ in range(3))
    teacher, normaliser = NORMALISERS[kind](), NORMALISERS[kind]()
    trained = [p for p in normaliser.parameters() if p.requires_grad]
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.add_(0.7)
    target = strop.attention(q, k, v, normaliser=teacher).detach()
    optimiser = torch.optim.Adam(trained, lr=0.02)

    def loss():
        return (strop.attention(q, k, v, normaliser=normaliser) - target).square().mean()

    before = loss().item()
    for _ in range(60):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    assert loss().item() < 0.3 * before


def test_names_build_what_they_say():
    assert isinstance(by_name("adaptive"), strop.normalisers.AdaptiveTemperature)
    assert by_name("top_k", k=5).k == 5
    assert all(isinstance(NAMES[name], type) for name in NAMES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: by_name("sofmax"), "normaliser must be known, got 'sofmax'. Did you mean 'softmax'"),
        (lambda: by_name("yarn"), "normaliser 'yarn' must be given its settings"),
        (lambda: strop.normalisers.Softmax(float("nan")), "beta must be a finite number, got nan"),
        (lambda: strop.normalisers.Entmax(1.0), "alpha must be a finite number greater than 1, got 1.0"),
        (lambda: strop.normalisers.TopK(0), "k must be a whole number of at least 1, got 0"),
        (lambda: strop.normalisers.LogN(1), "trained_length must be a finite number greater than 1, got 1"),
        (lambda: strop.normalisers.OffByOne(0), "n0 must be a finite number greater than 0"),
        (lambda: strop.normalisers.SSMax(heads=0), "heads must be at least 1 or None, got 0"),
        (lambda: strop.normalisers.QASSMax(0, 8), "heads must be at least 1, got 0"),
        (
            lambda: strop.normalisers.AdaptiveTemperature(beyond_fit="holt"),
            "beyond_fit must be known, got 'holt'. Did you mean 'hold'",
        ),
        (lambda: strop.normalisers.AdaptiveTemperature(()), "coefficients must hold at least one number"),
        (
            lambda: strop.normalisers.AdaptiveTemperature((1.0, float("nan"))),
            "coefficients must be a finite number, got nan",
        ),
    ],
)
def test_bad_settings_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
