"""Every normaliser against something nobody here wrote, or against its formula evaluated row by row."""

import math

import entmax as peer
import pytest
import torch
from cases import HEADS, NORMALISERS, rows
from hypothesis import given
from tabicl._model import ssmax as tabicl
from x_transformers.attend import sparse_topk_attn

import strop


def assert_rows(normaliser, logits, keep, expected, tolerance=1e-9):
    """Compare with `expected(visible logits)` in every row that sees a key; hidden keys must have weight 0."""
    weights = normaliser.weights(logits, keep)
    for i in range(logits.shape[0]):
        seen = torch.ones_like(logits[i], dtype=torch.bool) if keep is None else keep[i]
        assert (weights[i][~seen] == 0).all()
        if seen.any():
            torch.testing.assert_close(weights[i][seen], expected(logits[i][seen]), rtol=0, atol=tolerance)


@given(rows())
def test_softmax_is_torchs(case):
    assert_rows(strop.normalisers.Softmax(), *case, lambda e: e.softmax(0))
    assert_rows(strop.normalisers.Softmax(0.3), *case, lambda e: (0.3 * e).softmax(0))


@given(rows())
def test_sparsemax_is_entmaxs(case):
    assert_rows(strop.normalisers.Sparsemax(), *case, lambda e: peer.sparsemax(e, dim=0))


@given(rows())
def test_entmax15_is_entmaxs(case):
    assert_rows(strop.normalisers.Entmax15(), *case, lambda e: peer.entmax15(e, dim=0), tolerance=2e-7)


@pytest.mark.parametrize("alpha", [1.1, 1.3, 1.5, 2.0, 2.5, 4.0])
def test_any_alpha_is_entmaxs(alpha, draw):
    logits = 3 * torch.randn(20, 33, generator=draw, dtype=torch.float64)
    # α is stored as a float32 parameter, so compare at the α that is really used
    normaliser = strop.normalisers.Entmax(alpha).double()
    expected = peer.entmax_bisect(logits, alpha=normaliser.alpha.item(), n_iter=100)
    torch.testing.assert_close(normaliser.weights(logits), expected, rtol=0, atol=1e-9)


def test_entmax_gradients_are_entmaxs_for_logits_and_alpha(draw):
    logits = torch.randn(3, HEADS, 5, 11, generator=draw, dtype=torch.float64)
    normaliser = strop.normalisers.Entmax(1.6, learnable=True, heads=HEADS).double()
    cotangent = torch.randn(logits.shape, generator=draw, dtype=torch.float64)
    ours = torch.autograd.grad(
        (normaliser.weights(logits.requires_grad_()) * cotangent).sum(), [logits, normaliser.raw_alpha]
    )
    raw = normaliser.raw_alpha.detach().requires_grad_()
    alpha = (1 + raw.exp())[..., None].expand(*logits.shape[:-1], 1)
    theirs = torch.autograd.grad(
        (peer.entmax_bisect(logits, alpha=alpha, dim=-1, n_iter=100) * cotangent).sum(), [logits, raw]
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["sparsemax", "entmax15", "entmax 1.3"])
def test_entmax_gradients_are_the_numerical_ones_twice(kind, draw):
    normaliser = NORMALISERS[kind]().double()
    logits = torch.randn(1, HEADS, 2, 6, generator=draw, dtype=torch.float64, requires_grad=True)
    keep = torch.rand(2, 6, generator=draw) < 0.8
    assert torch.autograd.gradcheck(lambda x: normaliser.weights(x, keep), logits)
    if kind != "sparsemax":  # whose second derivative is zero wherever it exists
        assert torch.autograd.gradgradcheck(lambda x: normaliser.weights(x, keep), logits)


@given(rows())
def test_top_k_is_x_transformers(case):
    k = 3
    assert_rows(strop.normalisers.TopK(k), *case, lambda e: sparse_topk_attn(e, min(k, len(e))))


def test_top_k_keeps_all_ties():
    logits = torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0]])
    assert (strop.normalisers.TopK(2).weights(logits) > 0).tolist() == [[True, True, True, True, False]]


@given(rows())
def test_hard_and_average_hard(case):
    def first(e):
        return torch.nn.functional.one_hot(e.argmax(), len(e)).to(e.dtype)

    def ties(e):
        best = (e == e.max()).to(e.dtype)
        return best / best.sum()

    assert_rows(strop.normalisers.Hard(), *case, first)
    assert_rows(strop.normalisers.AverageHard(), *case, ties)


@given(rows())
def test_sinks_are_an_extra_logit(case):
    def with_logit(extra):
        return lambda e: torch.cat([e, e.new_tensor([extra])]).softmax(0)[:-1]

    assert_rows(strop.normalisers.OffByOne(), *case, with_logit(0.0))
    assert_rows(strop.normalisers.OffByOne(n0=7.0), *case, with_logit(math.log(7.0)))
    assert_rows(strop.normalisers.LearnedSink(init=0.25), *case, with_logit(0.25))


def test_sharpened_sinks_are_an_extra_logit_beside_sharpened_ones(draw):
    logits = torch.randn(1, 9, generator=draw, dtype=torch.float64)
    normaliser = strop.normalisers.WithSink(strop.normalisers.Softmax(3.0), torch.tensor(0.7))
    expected = torch.cat([3.0 * logits, torch.tensor([[0.7]], dtype=torch.float64)], dim=-1).softmax(-1)[:, :-1]
    torch.testing.assert_close(normaliser.weights(logits), expected)


@given(rows())
def test_ssmax_counts_visible_keys_only(case):
    assert_rows(
        strop.normalisers.SSMax(init=0.43),
        *case,
        lambda e: (torch.tensor(0.43) * math.log(len(e)) * e).softmax(0),
        1e-6,
    )


def test_ssmax_is_tabicls(draw):
    logits = torch.randn(2, HEADS, 5, 37, generator=draw, dtype=torch.float64)
    theirs = tabicl.SSMax(HEADS).double()
    ours = strop.normalisers.SSMax(HEADS, init=1.0).double()
    with torch.no_grad():
        theirs.scales.copy_(torch.rand(HEADS, generator=draw))
        ours.slope.copy_(theirs.scales[:, None])
    # scaling the query scales the logits: give tabicl's module the logits as a query
    torch.testing.assert_close(ours.weights(logits), theirs(logits, 37).softmax(-1))


@pytest.mark.parametrize("elementwise", [False, True])
def test_qassmax_is_tabicls_and_takes_its_weights(elementwise, draw):
    theirs = tabicl.QASSMaxMLP(HEADS, 8, elementwise=elementwise).double()
    ours = strop.normalisers.QASSMax(HEADS, 8, elementwise=elementwise).double()
    torch.nn.init.normal_(theirs.query_mlp[2].weight, generator=draw)
    ours.load_state_dict(theirs.state_dict())
    query = torch.randn(2, HEADS, 5, 8, generator=draw, dtype=torch.float64)
    for n in (1, 2, 777):
        expected = theirs(query, n)
        torch.testing.assert_close(ours.prepare_query(query, torch.tensor([n])), expected)
        torch.testing.assert_close(ours.prepare_query(query, torch.full((2, HEADS, 5), n)), expected)


@given(rows())
def test_log_n_and_yarn_formulae(case):
    assert_rows(strop.normalisers.LogN(16), *case, lambda e: (math.log(len(e)) / math.log(16) * e).softmax(0))
    assert_rows(
        strop.normalisers.YaRNTemperature(8),
        *case,
        lambda e: ((0.1 * math.log(max(1, len(e) / 8)) + 1) ** 2 * e).softmax(0),
    )
    assert_rows(
        strop.normalisers.YaRNTemperature(8, 64), *case, lambda e: ((0.1 * math.log(8) + 1) ** 2 * e).softmax(0)
    )


@given(rows())
def test_infoscale_is_the_ratio_of_the_cosines_of_full_spheres(case):
    def cosine(n):
        return math.cos(math.asin(n ** (-1 / 8)))  # n points on a sphere in 8 dimensions

    assert_rows(strop.normalisers.InfoScale(6, 8), *case, lambda e: (cosine(max(6, len(e))) / cosine(6) * e).softmax(0))


def test_infoscale_tends_to_the_root_of_log_n():
    lengths = strop.RowStats.of_counts(torch.tensor([0, 1, 256, 1024, 10**6]), torch.float64)
    beta = strop.normalisers.InfoScale(256, 10**9).inverse_temperature(lengths)
    expected = torch.tensor([1.0, 1.0, 1.0, (10 / 8) ** 0.5, (6 * math.log(10) / math.log(256)) ** 0.5])
    torch.testing.assert_close(beta, expected.double(), rtol=1e-6, atol=0)


def test_asentmax_is_entmax_of_scaled_logits(draw):
    normaliser = NORMALISERS["asentmax"]().double().requires_grad_(False)
    query = torch.randn(2, HEADS, 3, 8, generator=draw, dtype=torch.float64)
    key = torch.randn(2, HEADS, 29, 8, generator=draw, dtype=torch.float64)
    out = strop.attention(
        query, key, torch.eye(29, dtype=torch.float64).expand(2, HEADS, 29, 29), normaliser=normaliser
    )
    for b, h, i in [(0, 0, 0), (1, 3, 2), (0, 2, 1)]:
        q = query[b, h, i]
        beta = math.log1p(math.exp(q @ normaliser.beta_weight[h, 0]))
        gamma = 2 * math.tanh(q @ normaliser.gamma_weight[h, 0])
        scores = (1 + beta * math.log(29) ** gamma) * (key[b, h] @ q) / math.sqrt(8)
        torch.testing.assert_close(out[b, h, i], peer.entmax15(scores, dim=0), rtol=0, atol=1e-6)


def test_llama4_temperature_is_transformers(draw):
    from transformers.models.llama4.modeling_llama4 import Llama4TextAttention, Llama4TextConfig

    n, heads, groups, width = 23, 4, 2, 8
    config = Llama4TextConfig(
        hidden_size=32, num_attention_heads=heads, num_key_value_heads=groups, head_dim=width, no_rope_layers=[0],
        num_hidden_layers=1, floor_scale=4, attn_scale=0.1, attn_temperature_tuning=True, attn_implementation="eager",
    )  # fmt: skip
    theirs = Llama4TextAttention(config, 0).double().requires_grad_(False)
    for parameter in theirs.parameters():
        parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    hidden = torch.randn(1, n, 32, generator=draw, dtype=torch.float64)
    causal = torch.full((1, 1, n, n), -torch.inf, dtype=torch.float64).triu(1)
    expected, _ = theirs(hidden, position_embeddings=None, attention_mask=causal)
    q, k, v = (p(hidden).view(1, n, -1, width).transpose(1, 2) for p in (theirs.q_proj, theirs.k_proj, theirs.v_proj))
    ours = strop.attention(
        q, k, v, is_causal=True, enable_gqa=True, normaliser=strop.normalisers.Llama4Temperature(floor=4)
    )
    ours = theirs.o_proj(ours.transpose(1, 2).reshape(1, n, -1))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)  # theirs is computed in float32
    plain = strop.attention(q, k, v, is_causal=True, enable_gqa=True)
    assert not torch.allclose(theirs.o_proj(plain.transpose(1, 2).reshape(1, n, -1)), expected, atol=1e-3)


def test_hard_attention_trains_straight_through_softmax(draw):
    logits = torch.randn(3, 4, 7, generator=draw, dtype=torch.float64)
    keep = torch.rand(3, 4, 7, generator=draw) > 0.3
    value = torch.randn(7, 2, generator=draw, dtype=torch.float64)
    grads, outs = [], []
    for rule in (strop.normalisers.Hard(straight_through=True), strop.normalisers.Softmax()):
        leaf = logits.clone().requires_grad_()
        outs.append(rule.weights(leaf, keep))
        grads.append(torch.autograd.grad((outs[-1] @ value).sum(), leaf)[0])
    assert torch.equal(outs[0].detach(), strop.normalisers.Hard().weights(logits, keep))
    torch.testing.assert_close(grads[0], grads[1])
    assert not strop.normalisers.Hard().weights(logits.clone().requires_grad_(), keep).requires_grad
