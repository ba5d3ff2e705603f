"""What holds for sigmoid, linear, softpick, stick-breaking, TRA, selective, differential and multi-token attention."""

import copy

import pytest
import torch
from cases import HEAD_DIM, HEADS
from further import FURTHER, causal, holes, inputs, randn, weigh

import strop
from strop.kernels import shapes
from strop.normalisers.fusion import Dense
from strop.sharpness import RowStats, entropy_of

every = pytest.mark.parametrize("kind", FURTHER)
SIGNED_OR_UNSHARED = {"sigmoid", "sigmoid learned", "differential", "multi_token"}
ROWS_TOGETHER = {"selective", "differential", "multi_token"}
N = 8


@every
def test_what_it_says_of_itself(kind):
    normaliser = FURTHER[kind]()
    assert normaliser.simplex == (kind not in SIGNED_OR_UNSHARED)
    assert normaliser.rowwise == (kind not in ROWS_TOGETHER)
    assert isinstance(normaliser.fusion(), Dense)
    assert normaliser.logits_alone == (kind not in {"linear", "tra"})
    assert normaliser.additive == (kind != "linear")


@every
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_a_simplex_is_one_and_has_an_entropy(kind, scale, draw):
    normaliser = FURTHER[kind]()
    weights = weigh(normaliser, scale * randn(draw, 2, HEADS, N, N), holes(N))
    if normaliser.simplex:
        assert (weights >= 0).all()
        assert (weights.sum(-1) <= 1 + 1e-12).all()
        assert entropy_of(weights).isfinite().all()
    elif scale == 30.0:
        assert (weights < 0).any() or (weights.sum(-1) > 1).any()


@every
def test_hidden_keys_have_no_weight_and_no_say(kind, draw):
    logits, keep = randn(draw, 2, HEADS, N, N), holes(N)
    normaliser = FURTHER[kind]()
    before = weigh(normaliser, logits, keep)
    strange = torch.tensor([torch.nan, torch.inf, 1e30])[torch.arange(N) % 3]
    wild = torch.where(keep, logits, strange).requires_grad_()
    after = weigh(normaliser, wild, keep)
    assert torch.equal(after, before)
    (grad,) = torch.autograd.grad(after.square().sum(), wild)
    assert grad.isfinite().all()
    assert (grad[..., ~keep] == 0).all()
    assert (before[..., ~keep] == 0).all()
    assert (before[..., keep] != 0).any()


@every
def test_hidden_values_have_no_say_in_attention(kind, draw):
    q, k, v = inputs(draw, N, N)
    keep = causal(N) & (torch.arange(N) < 6)
    before = strop.attention(q, k, v, keep, normaliser=FURTHER[kind]())
    k[..., 6:, :], v[..., 6:, :] = torch.nan, torch.inf
    assert torch.equal(strop.attention(q, k, v, keep, normaliser=FURTHER[kind]()), before)


@every
def test_rows_that_see_nothing_are_zero_and_no_gradient_is_nan(kind, draw):
    logits, keep = randn(draw, 2, HEADS, N, N).requires_grad_(), holes(N)
    normaliser = FURTHER[kind]()
    weights = weigh(normaliser, logits, keep)
    assert (weights[..., 3, :] == 0).all()
    learned = [p for p in normaliser.parameters() if p.requires_grad]
    grads = torch.autograd.grad(weights.square().sum(), [logits, *learned])
    assert all(grad.isfinite().all() and (grad != 0).any() for grad in grads)
    assert (grads[0][..., ~keep] == 0).all()
    nothing = weigh(normaliser, logits, torch.zeros(N, N, dtype=torch.bool))
    assert (nothing == 0).all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(nothing.sum(), [logits, *learned]))


@every
def test_no_row_learns_of_what_comes_after_it(kind, draw):
    q, k, v = inputs(draw, N, N)
    normaliser = FURTHER[kind]()
    before = strop.attention(q, k, v, is_causal=True, normaliser=normaliser)
    for i in range(1, N):
        later = [torch.cat([t[..., :i, :], t[..., i:, :] + randn(draw, *t[..., i:, :].shape)], -2) for t in (q, k, v)]
        after = strop.attention(*later, is_causal=True, normaliser=normaliser)
        torch.testing.assert_close(after[..., :i, :], before[..., :i, :], rtol=0, atol=1e-12)
        assert not torch.allclose(after[..., i:, :], before[..., i:, :], atol=1e-3)


@every
def test_a_logit_of_a_later_row_has_no_gradient(kind, draw):
    """Of the logits themselves, which rows may share without a shared key: selective and multi-token attention."""
    logits = randn(draw, 1, HEADS, N, N).requires_grad_()
    weights = weigh(FURTHER[kind](), logits, causal(N))
    for i in range(N):
        (grad,) = torch.autograd.grad(weights[..., i, :].square().sum(), logits, retain_graph=True)
        assert (grad[..., i + 1 :, :] == 0).all()
        if kind not in ("selective", "multi_token"):
            assert (grad[..., :i, :] == 0).all()


@every
def test_float32_is_float64_to_rounding(kind, draw):
    logits, keep = (3 * randn(draw, 2, HEADS, 40, 40)).float(), holes(40)
    normaliser = FURTHER[kind]()
    got = weigh(normaliser, logits, keep)
    exact = weigh(copy.deepcopy(normaliser).double(), logits.double(), keep)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), exact, rtol=0, atol=5e-6)
    for half in (torch.bfloat16, torch.float16):
        assert weigh(normaliser, logits.to(half), keep).dtype == torch.float32


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_large_logits_stay_finite(kind, dtype, draw):
    logits = (1e4 * randn(draw, 2, HEADS, N, N).sign()).to(dtype).requires_grad_()
    normaliser = FURTHER[kind]().to(dtype)
    weights = weigh(normaliser, logits, causal(N))
    assert weights.isfinite().all()
    learned = [p for p in normaliser.parameters() if p.requires_grad]
    assert all(g.isfinite().all() for g in torch.autograd.grad(weights.square().sum(), [logits, *learned]))


@every
def test_gradients_are_the_numerical_ones(kind, draw):
    q, k, v = (t[:1, :, :5].requires_grad_() for t in inputs(draw, N, N))
    normaliser = FURTHER[kind]().double()
    learned = [p for p in normaliser.parameters() if p.requires_grad]

    def attend(q, k, v, *_):
        return strop.attention(q, k, v, holes(5), normaliser=normaliser, scale=1.0)

    assert torch.autograd.gradcheck(attend, (q, k, v, *learned), fast_mode=True)


@every
def test_a_visible_nan_shows_in_its_row(kind):
    logits = torch.full((1, HEADS, 4, 4), 0.5)
    logits[..., 2, 1] = torch.nan
    weights = weigh(FURTHER[kind](), logits, causal(4))
    assert weights[..., 2, :].isnan().any(-1).any() or kind == "selective"  # there, row 2 tells of it to row 3
    assert weights[..., 2:, :].isnan().any()
    assert not weights[..., :2, :].isnan().any()


@every
def test_implementations_agree_or_refuse(kind, draw, monkeypatch):
    monkeypatch.setattr(shapes, "LOGITS_IN_MEMORY", 500)
    tensors = [t.float() for t in inputs(draw, 23, 23)]
    normaliser = FURTHER[kind]()
    for arguments in ({}, {"is_causal": True}, {"attn_mask": holes(23)}):
        leaves = [t.clone().requires_grad_() for t in tensors]
        expected = strop.attention(*leaves, normaliser=normaliser, impl="reference", **arguments)
        grads = torch.autograd.grad(expected.square().sum(), leaves)
        torch.testing.assert_close(strop.attention(*leaves, normaliser=normaliser, **arguments), expected)
        for impl in ("native", "fused_calls", "streaming"):
            if impl == "streaming" and kind not in ROWS_TOGETHER:
                got = strop.attention(*leaves, normaliser=normaliser, impl=impl, **arguments)
                torch.testing.assert_close(got, expected)
                for a, b in zip(torch.autograd.grad(got.square().sum(), leaves), grads, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
                continue
            with pytest.raises(ValueError, match=f"impl='{impl}' cannot run this call"):
                strop.attention(*leaves, normaliser=normaliser, impl=impl, **arguments)


@every
def test_statistics_are_those_of_the_raw_logits(kind, draw):
    q, k, v = inputs(draw, N, N)
    normaliser = FURTHER[kind]()
    _, stats = strop.attention(q, k, v, holes(N), normaliser=normaliser, scale=0.5, return_stats=True)
    prepared = normaliser.prepare_query(q, holes(N).sum(-1)) * 0.5 @ normaliser.prepare_key(k).mT
    for got, expected in zip(stats, RowStats.of(prepared, holes(N)), strict=True):
        torch.testing.assert_close(got, expected)


@every
def test_vmap_copies_and_state_round_trip(kind, draw):
    logits = randn(draw, 3, HEADS, N, N).float()
    normaliser, fresh = FURTHER[kind](), FURTHER[kind]()
    alone = torch.stack([weigh(normaliser, x) for x in logits])
    torch.testing.assert_close(torch.func.vmap(lambda x: weigh(normaliser, x))(logits), alone)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.zero_()
    fresh.load_state_dict(normaliser.state_dict())
    for other in (fresh, copy.deepcopy(normaliser)):
        assert torch.equal(weigh(other, logits), weigh(normaliser, logits))
        assert repr(other) == repr(normaliser)


@every
def test_no_keys_or_no_batch(kind, draw):
    normaliser = FURTHER[kind]()
    for batch, n in ((2, 0), (0, 4)):
        q, k, v = (torch.zeros(batch, HEADS, n, d) for d in (HEAD_DIM, HEAD_DIM, 5))
        assert strop.attention(q, k, v, normaliser=normaliser).shape == (batch, HEADS, n, 5)


@pytest.mark.parametrize("kind", ["tra", "differential", "multi_token", "sigmoid learned"])
def test_what_is_learned_trains(kind, draw):
    q, k, v = inputs(draw, 12, 12, dtype=torch.float32)
    target = strop.attention(q, k, v, is_causal=True, normaliser=FURTHER[kind]()).detach()
    normaliser = FURTHER[kind]()
    with torch.no_grad():
        for parameter in normaliser.parameters():
            parameter.mul_(0.5)
    optimiser = torch.optim.Adam(normaliser.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        loss = (strop.attention(q, k, v, is_causal=True, normaliser=normaliser) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
