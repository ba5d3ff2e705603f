"""Every implementation × normaliser × dtype × shape × mask meets the definition in float64, outputs and every gradient.

The error budget is twice the plain path's own error in that dtype (the definition run in it) plus rounding.
"""

import pytest
import torch
import torch.utils.checkpoint
from cases import HEAD_DIM, HEADS, MASKS, NORMALISERS, mask_arguments

import strop
from strop.kernels import IMPLEMENTATIONS, shapes
from strop.normalisers import Temperature
from strop.normalisers.fusion import ConstantBeta, CountBeta

SHAPES = [(1, 1), (1, 7), (7, 63), (63, 7), (111, 111)]
SHAPES_IN_HALF_PRECISION = [(7, 63), (63, 7)]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
ELSEWHERE = ("reference", "triton", "sharded")  # tests/kernels/interpreted, tests/kernels/test_sharded.py
FAST = [name for name in IMPLEMENTATIONS if name not in ELSEWHERE]
MEASURING = [name for name in FAST if name != "scaled_query"]
RULES = {name: "adaptive" if name in MEASURING else "llama4" for name in ("auto", "reference", *FAST)}
"""A rule that each can run, of which it makes the most."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Make streaming take several blocks at these sizes."""
    monkeypatch.setattr(shapes, "LOGITS_IN_MEMORY", 10_000)


def inputs(n_q, n_k, draw, groups=2, value_dim=5, batch=2):
    return [
        torch.randn(batch, heads, n, d, generator=draw, dtype=torch.float64)
        for heads, n, d in ((HEADS, n_q, HEAD_DIM), (groups, n_k, HEAD_DIM), (groups, n_k, value_dim))
    ]


def attend(tensors, dtype, impl, normaliser, arguments):
    """Output and gradients of q, k, v and of what the normaliser learns, in float64 for comparison."""
    leaves = [t.to(dtype).requires_grad_() for t in tensors]
    normaliser = normaliser.to(torch.float64 if dtype == torch.float64 else torch.float32)
    trained = [p for p in normaliser.parameters() if p.requires_grad]
    mask = arguments.get("attn_mask")
    if type(mask) is torch.Tensor and mask.is_floating_point():
        arguments = arguments | {"attn_mask": mask.to(torch.promote_types(dtype, torch.float32))}
    out = strop.attention(*leaves, enable_gqa=True, normaliser=normaliser, impl=impl, **arguments)
    assert out.dtype == dtype
    cotangent = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out).to(dtype)
    grads = torch.autograd.grad(out, [*leaves, *trained], cotangent, allow_unused=True)
    names = ["out", "query", "key", "value", *(f"parameter {i}" for i in range(len(trained)))]
    return {name: None if t is None else t.detach().double() for name, t in zip(names, [out, *grads], strict=True)}


def assert_within_budget(got, plain, exact, dtype, what):
    for name, truth in exact.items():
        if truth is None:
            assert got[name] is None or (got[name] == 0).all(), (what, name)
            continue
        size = truth.abs().max().item() if truth.numel() else 0.0
        rounding = (128 if dtype == torch.float64 else 64) * torch.finfo(dtype).eps  # in float64 plain is exact itself
        budget = 2 * (plain[name] - truth).abs().max().item() + rounding * (1 + size)
        error = (got[name] - truth).abs().max().item()
        assert error <= budget, f"{what}: {name} is off by {error:.2e}, budget {budget:.2e}"


@pytest.mark.filterwarnings("ignore:Lower right causal bias")  # rows that see nothing are zero here
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", NORMALISERS)
def test_implementations_agree_with_the_definition(kind, dtype, draw):
    ran = set()
    for n_q, n_k in SHAPES if dtype.itemsize > 2 else SHAPES_IN_HALF_PRECISION:
        tensors = [t.to(dtype).double() for t in inputs(n_q, n_k, draw)]  # rounded once, for all
        for mask in MASKS:
            arguments = mask_arguments(mask, 2, n_q, n_k, draw)
            exact = attend(tensors, torch.float64, "reference", NORMALISERS[kind](), arguments)
            plain = attend(tensors, dtype, "reference", NORMALISERS[kind](), arguments)
            for impl in FAST:
                try:
                    got = attend(tensors, dtype, impl, NORMALISERS[kind](), arguments)
                except ValueError as error:
                    if "cannot run this call" not in str(error):
                        raise
                    continue
                ran.add((impl, mask))
                assert_within_budget(got, plain, exact, dtype, f"{impl}, {mask}, {n_q}×{n_k}")
    assert {("streaming", mask) for mask in MASKS} <= ran
    if isinstance(NORMALISERS[kind](), Temperature):
        assert {("fused_calls", mask) for mask in MASKS if mask != "additive"} <= ran
    if isinstance(NORMALISERS[kind]().fusion(), ConstantBeta):
        assert {("scaled_query", mask) for mask in MASKS} <= ran or "sink" in kind or kind == "off_by_one"
    elif isinstance(NORMALISERS[kind]().fusion(), CountBeta):
        assert {("scaled_query", mask) for mask in MASKS if mask != "additive"} <= ran


@pytest.mark.parametrize("impl", FAST)
@pytest.mark.parametrize("kind", ["softmax", "adaptive", "ssmax", "entmax15"])
def test_a_thousand_keys(kind, impl, draw, monkeypatch):
    monkeypatch.setattr(shapes, "LOGITS_IN_MEMORY", 1_000_000)
    if (impl, kind) in {("fused_calls", "entmax15"), ("scaled_query", "entmax15"), ("scaled_query", "adaptive")}:
        return
    tensors = [t[:1] for t in inputs(1000, 1000, draw, value_dim=8)]
    for arguments in ({}, {"is_causal": True}):
        exact, plain, got = (
            attend(tensors, dtype, name, NORMALISERS[kind](), arguments)
            for dtype, name in ((torch.float64, "reference"), (torch.float32, "reference"), (torch.float32, impl))
        )
        assert_within_budget(got, plain, exact, torch.float32, f"{impl}, {arguments}")


@pytest.mark.parametrize("impl", ["reference", *FAST])
def test_statistics_equal_those_of_the_logits(impl, draw):
    q, k, v = inputs(7, 63, draw, groups=HEADS)
    keep = torch.rand(2, 1, 7, 63, generator=draw) < 0.5
    keep[:, :, 3] = False
    if impl in ("fused_calls", "scaled_query"):
        with pytest.raises(ValueError, match=r"does not tell a row's largest and smallest logit|tells no statistics"):
            strop.attention(q, k, v, impl=impl, return_stats=True)
        return
    expected = strop.RowStats.of(q @ k.mT / HEAD_DIM**0.5, keep)
    for normaliser in (
        strop.normalisers.Softmax(),
        strop.normalisers.AdaptiveTemperature(),
        strop.normalisers.Entmax15(),
    ):
        dtype = torch.float32 if impl == "native" else torch.float64
        _, stats = strop.attention(
            *(t.to(dtype) for t in (q, k, v)), keep, normaliser=normaliser, impl=impl, return_stats=True
        )
        for name, field, truth in zip(strop.RowStats._fields, stats, expected, strict=True):
            assert field.shape == (2, HEADS, 7), name
            torch.testing.assert_close(field.to(truth.dtype), truth, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("impl", ["reference", "streaming"])
def test_soft_capped_logits(impl, draw):
    q, k, v = inputs(7, 63, draw, groups=HEADS)
    keep = torch.rand(7, 63, generator=draw) < 0.7
    logits = 2.0 * torch.tanh(q @ k.mT / HEAD_DIM**0.5 / 2.0)
    expected = strop.normalisers.AdaptiveTemperature().weights(logits, keep) @ v
    got = strop.attention(q, k, v, keep, normaliser="adaptive", softcap=2.0, impl=impl)
    torch.testing.assert_close(got, expected)


class Listener(strop.normalisers.Temperature):
    """Keeps what it is told of the rows."""

    def inverse_temperature(self, stats):
        self.told = stats.map(lambda field: field.detach().double())
        return torch.ones_like(stats.mean)


@pytest.mark.parametrize("impl", MEASURING)
def test_every_implementation_tells_beta_the_same(impl, draw):
    q, k, v = (t.float() for t in inputs(7, 63, draw, groups=HEADS))
    keep = (torch.rand(2, 1, 7, 63, generator=draw) < 0.5) & (torch.arange(7) != 3)[:, None]
    listener, reference = Listener(), Listener()
    strop.attention(q, k, v, keep, normaliser=reference, impl="reference")
    strop.attention(q, k, v, keep, normaliser=listener, impl=impl)
    for name in ("n_keys", "logsumexp", "mean", "entropy"):
        told, truth = getattr(listener.told, name), getattr(reference.told, name)
        torch.testing.assert_close(told.view_as(truth), truth, rtol=1e-5, atol=1e-5, msg=name)


def test_gradients_reach_beta_unless_detached(draw):
    """The numerical gradient of the whole call settles which of the two is the full one."""
    tensors = [t[:1, :2, :, :3] for t in inputs(4, 4, draw)]
    for impl in ("reference", "streaming", "fused_calls"):

        def call(q, k, v, impl=impl, **settings):
            normaliser = strop.normalisers.AdaptiveTemperature(**settings)
            return strop.attention(q, k, v, is_causal=True, normaliser=normaliser, impl=impl)

        leaves = [t.clone().requires_grad_() for t in tensors]
        assert torch.autograd.gradcheck(call, leaves)
        full, cut = (torch.autograd.grad(call(*leaves, detach_beta=d).sum(), leaves[0])[0] for d in (False, True))
        assert not torch.allclose(full, cut, atol=1e-4)


@pytest.mark.parametrize("impl", FAST)
def test_gradients_survive_checkpointing(impl, draw):
    leaves = [torch.randn(1, 2, 9, 4, generator=draw).requires_grad_() for _ in range(3)]

    def attend(*tensors):
        return strop.attention(*tensors, is_causal=True, normaliser=RULES[impl], impl=impl)

    expected = torch.autograd.grad(attend(*leaves).sum(), leaves)
    again = torch.utils.checkpoint.checkpoint(attend, *leaves, use_reentrant=False)
    for got, truth in zip(torch.autograd.grad(again.sum(), leaves), expected, strict=True):
        torch.testing.assert_close(got, truth)


def test_dropout_keeps_the_mean_and_drops_weights(draw):
    q, k = (torch.randn(1, 1, 64, 4, generator=draw) for _ in range(2))
    v = torch.eye(64).expand(1, 1, 64, 64)
    torch.manual_seed(0)
    weights = strop.attention(q, k, v, dropout_p=0.25, impl="streaming")
    assert (weights == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert weights.sum(-1).mean().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("impl", ["reference", "streaming", "fused_calls", "scaled_query"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 2, 3)], ids=str)
def test_any_number_of_batch_dimensions(shape, impl, draw):
    q, k, v = (torch.randn(*shape, n, 4, generator=draw) for n in (5, 6, 6))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(strop.attention(q, k, v, impl=impl), expected)
    keep = torch.rand(5, 6, generator=draw) < 0.7
    expected = strop.attention(q, k, v, keep, normaliser=RULES[impl], impl="reference")
    torch.testing.assert_close(strop.attention(q, k, v, keep, normaliser=RULES[impl], impl=impl), expected)


@pytest.mark.parametrize("impl", ["auto", "reference", *FAST])
@pytest.mark.parametrize(("batch", "n_q", "n_k"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_empty_inputs_give_empty_or_zero_outputs(impl, batch, n_q, n_k):
    q, k, v = (torch.zeros(batch, 1, n, 4) for n in (n_q, n_k, n_k))
    out = strop.attention(q, k, v, normaliser=RULES[impl], impl=impl)
    assert out.shape == (batch, 1, n_q, 4)
    assert (out == 0).all()


@pytest.mark.parametrize("impl", ["reference", "streaming", "auto"])
@pytest.mark.parametrize("normaliser", ["softmax", "adaptive", "entmax15"])
@pytest.mark.parametrize("strange", [torch.nan, torch.inf])
def test_strange_numbers_reach_only_rows_that_may_see_them(impl, normaliser, strange, draw):
    clean = [torch.randn(1, 2, 9, 4, generator=draw) for _ in range(3)]
    expected = strop.attention(*clean, is_causal=True, normaliser=normaliser, impl=impl)
    for which, touched in ((0, [5]), (1, [5, 6, 7, 8]), (2, [5, 6, 7, 8])):
        tensors = [t.clone() for t in clean]
        tensors[which][0, 1, 5, 2] = strange
        out = strop.attention(*tensors, is_causal=True, normaliser=normaliser, impl=impl)
        bad = ~out.isfinite().all(-1)
        may = torch.zeros_like(bad)
        may[0, 1, touched] = True
        assert not (bad & ~may).any()
        if strange != strange or which == 2:  # an infinite logit may be an ordinary −inf one for some rows
            assert (bad | ~may).all() or normaliser == "entmax15"
        torch.testing.assert_close(out[~may], expected[~may])


@pytest.mark.parametrize("impl", ["reference", *FAST])
def test_the_future_stays_unseen(impl, draw):
    q, k, v = (torch.randn(1, 2, 33, 4, generator=draw) for _ in range(3))
    before = strop.attention(q, k, v, is_causal=True, normaliser=RULES[impl], impl=impl)
    k[:, :, 20:], v[:, :, 20:] = 7.0, -7.0
    after = strop.attention(q, k, v, is_causal=True, normaliser=RULES[impl], impl=impl)
    assert torch.equal(before[:, :, :20], after[:, :, :20])
    assert not torch.equal(before[:, :, 20:], after[:, :, 20:])


class Topmost(Temperature):
    """Reads the largest logit, which two fused calls do not know."""

    def inverse_temperature(self, stats):
        return 1.0 / stats.max.abs().clamp(min=1.0)


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_rule_that_reads_what_is_unknown_gives_nan_and_never_zeros(is_causal, draw):
    q, k, v = (t.float() for t in inputs(5, 5, draw, groups=HEADS))
    out = strop.attention(q, k, v, is_causal=is_causal, normaliser=Topmost(), impl="fused_calls")
    assert out.isnan().all()  # torch's kernel, left alone, makes zeros of it
    assert strop.attention(q, k, v, is_causal=is_causal, normaliser=Topmost()).isfinite().all()


def test_a_row_that_sees_nothing_is_zero_whatever_its_rule_reads(draw):
    q, k, v = (t.float() for t in inputs(5, 9, draw, groups=HEADS))
    keep = (torch.arange(5) != 3)[:, None].expand(5, 9)
    assert (strop.attention(q, k, v, attn_mask=keep, normaliser=Topmost(), impl="fused_calls")[..., 3, :] == 0).all()
