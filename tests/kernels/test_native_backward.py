"""Gradients of the native kernel meet those of the definition in float64: sizes, masks, layouts, rules, levels."""

import math

import pytest
import torch
from cases import built
from hypothesis import given
from hypothesis import strategies as st
from test_native import LEVELS, MASKS, like, random_mask, random_tensor

import strop
from strop.kernels import native, reference
from strop.kernels.mask import Mask
from strop.kernels.native import abi, gradient
from strop.kernels.request import Request
from strop.normalisers import (
    AdaptiveTemperature,
    Entmax15,
    LearnedSink,
    LogN,
    OffByOne,
    Softmax,
    Sparsemax,
    SSMax,
    Temperature,
    WithSink,
)

pytestmark = built


class HalfEntropy(Temperature):
    """A rule that the kernel does not know: β comes from a first call's statistics, with gradients through both."""

    def inverse_temperature(self, stats):
        return 1.0 + 0.5 * stats.entropy


SMOOTH = AdaptiveTemperature(
    coefficients=(0.05, 0.1, 1.05), threshold=-1.0
)  # nowhere a kink, at which rounding decides
RULES = {
    "softmax": Softmax,
    "softmax β=2.5": lambda: Softmax(2.5),
    "softmax β=-1": lambda: Softmax(-1.0),
    "adaptive": lambda: SMOOTH,
    "adaptive detached": lambda: AdaptiveTemperature((0.05, 0.1, 1.05), threshold=-1.0, detach_beta=True),
    "ssmax": lambda: SSMax(bias=True),
    "log_n": lambda: LogN(16),
    "off_by_one": OffByOne,
    "sink": lambda: LearnedSink(init=0.5),
    "adaptive with sink": lambda: WithSink(SMOOTH, torch.tensor(0.7)),
    "half entropy": HalfEntropy,
    "sparsemax": Sparsemax,
    "entmax15": Entmax15,
}


def gradients(run, tensors, mask, rule, flows, softcap=None, scale=0.3):
    """Of query, key, value, bias and what the rule learns; `flows` go into output, max, min, log-sum-exp and mean."""
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)
    leaves = [t.detach().requires_grad_() for t in tensors]
    rule = rule().to(dtype)
    bias = None if mask.bias is None else mask.bias.to(dtype, copy=True).requires_grad_()
    request = Request(*leaves, Mask(mask.keep, bias, mask.diagonal), scale, rule, softcap, return_stats=True)
    out, stats = run(request)
    results = [out, *(torch.where(stats.n_keys > 0, field, 0.0) for field in stats[1:])]
    pairs = [(r, f.to(r.dtype)) for r, f in zip(results, flows, strict=True) if f is not None and r.requires_grad]
    learned = [*leaves, *([] if bias is None else [bias]), *rule.parameters()]
    if not pairs:  # the definition's results of no keys depend on nothing
        return [torch.zeros_like(x) for x in learned]
    found = torch.autograd.grad([r for r, _ in pairs], learned, [f for _, f in pairs], allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, learned, strict=True)]


def compare(tensors, dtype, mask, level, rule, flows, **settings):
    tensors = [like(t, dtype) for t in tensors]
    got = gradients(lambda r: native.implementation.run(r, level), tensors, mask, rule, flows, **settings)
    plain, exact = (
        gradients(reference.implementation.run, ts, mask, rule, flows, **settings)
        for ts in (tensors, [t.double() for t in tensors])
    )
    for i, (a, b, truth) in enumerate(zip(got, plain, exact, strict=True)):
        assert a.dtype == b.dtype
        if truth.numel() == 0:
            continue
        rounding = 64 * torch.finfo(a.dtype).eps * (1 + truth.abs().max().item())
        budget = 2 * (b.double() - truth).abs().max().item() + rounding
        error = (a.double() - truth).abs().max().item()
        assert error <= budget, f"gradient {i} is off by {error:.2e}, budget {budget:.2e}"


def near_the_edge(tensors, mask, rule, dtype, softcap, scale=0.3):
    """Whether some key of a sparse rule is so near its threshold that rounding decides whether it has weight."""
    if rule not in (Sparsemax, Entmax15):
        return False
    q, k = (like(t, dtype).double() for t in tensors[:2])
    eye = torch.eye(k.shape[2], dtype=torch.float64).expand(*k.shape[:2], -1, -1)
    weights = []
    for nudge in (-1e-4, 1e-4):
        more = q * (1 + nudge)
        weights.append(reference.implementation.run(Request(more, k, eye, mask, scale, rule(), softcap))[0] > 0)
    return not torch.equal(*weights)


@given(
    n_q=st.integers(0, 80),
    n_k=st.integers(0, 300),
    seed=st.integers(0, 2**32),
    level=st.sampled_from(LEVELS or ("none",)),
    dtype=st.sampled_from([torch.float32, torch.float32, torch.bfloat16]),
    kind=st.sampled_from(sorted(RULES)),
    mask=st.sampled_from(MASKS),
    layouts=st.tuples(*[st.sampled_from(["plain", "heads last", "unaligned", "columns"])] * 3),
    softcap=st.sampled_from([None, None, 1.5, 30.0]),
    heads=st.sampled_from([(1, 1), (2, 2), (4, 2), (6, 1)]),
    d=st.sampled_from([1, 3, 8, 17, 31, 64]),
    dv=st.sampled_from([1, 5, 8, 24, 64]),
    into=st.tuples(*[st.booleans()] * 5).filter(any),
)
def test_gradients_meet_the_definition(
    n_q, n_k, seed, level, dtype, kind, mask, layouts, softcap, heads, d, dv, into
):  # fmt: skip
    draw = torch.Generator().manual_seed(seed)
    batch = 1 + seed % 2
    sizes = ((heads[0], n_q, d), (heads[1], n_k, d), (heads[1], n_k, dv))
    tensors = [random_tensor(layout, batch, *size, draw) for layout, size in zip(layouts, sizes, strict=True)]
    seen = random_mask(mask, batch, heads[0], n_q, n_k, draw)
    if near_the_edge(tensors, seen, RULES[kind], dtype, softcap):
        return
    rows = (batch, heads[0], n_q)
    shapes = ((*rows, dv), *[rows] * 4)
    flows = [
        torch.randn(s, generator=draw, dtype=torch.float64) if i else None for s, i in zip(shapes, into, strict=True)
    ]
    compare(tensors, dtype, seen, level, RULES[kind], flows, softcap=softcap)


def plain_inputs(draw, n_q=70, n_k=300, d=16, dv=16, heads=4, kv_heads=2):
    sizes = ((heads, n_q, d), (kv_heads, n_k, d), (kv_heads, n_k, dv))
    return [torch.randn(2, *size, generator=draw) for size in sizes]


def train(tensors, mask=None, rule=SMOOTH, level=None, seed=1):
    flow = torch.randn(*tensors[0].shape[:-1], tensors[2].shape[-1], generator=torch.Generator().manual_seed(seed))
    return gradients(
        lambda r: native.implementation.run(r, level),
        tensors,
        mask or Mask(),
        lambda: rule,
        [flow, None, None, None, None],
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("n_q", "n_k", "d"), [(63, 111, 128), (70, 3000, 8)])
def test_wide_and_long(level, n_q, n_k, d, draw):
    tensors = [t.double() for t in plain_inputs(draw, n_q, n_k, d, d, heads=2, kv_heads=1)]
    flow = torch.randn(2, 2, n_q, d, generator=draw, dtype=torch.float64)
    for mask in (Mask(), Mask(diagonal=n_k - n_q)):
        compare(tensors, torch.float32, mask, level, lambda: SMOOTH, [flow, None, None, None, None], scale=d**-0.5)


@pytest.mark.parametrize("kind", ["softmax", "adaptive", "entmax15"])
@pytest.mark.parametrize("mask", ["none", "causal", "shared bias", "bias by key"])
@pytest.mark.parametrize("heads", [(4, 2), (3, 1), (1, 1)], ids=str)
def test_same_bits_with_any_number_of_threads_and_on_every_run(kind, mask, heads, draw, monkeypatch):
    tensors = plain_inputs(draw, 300, 400, 8, 8, *heads)
    masks = {
        "none": Mask(),
        "causal": Mask(diagonal=100),
        "shared bias": Mask(bias=torch.randn(300, 400, generator=draw)),
        "bias by key": Mask(bias=torch.randn(1, 400, generator=draw)),
    }
    before, runs = torch.get_num_threads(), []
    try:
        for threads, team in ((1, abi.library().team), (2, abi.library().team), (3, None), (2, None)):
            torch.set_num_threads(threads)
            monkeypatch.setattr(abi.library(), "team", team)
            runs.append(train(tensors, masks[mask], RULES[kind]()))
    finally:
        torch.set_num_threads(before)
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], run, strict=True))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["softmax", "adaptive", "adaptive with sink", "entmax15"])
@pytest.mark.parametrize("strange", [math.nan, math.inf])
def test_what_nobody_sees_changes_nothing(kind, strange, level, draw):
    """Keys hidden from all rows, and a row that sees nothing, might as well not be there, whatever they hold."""
    q, k, v = plain_inputs(draw, 70, 150)
    keep = torch.rand(1, 1, 70, 150, generator=draw) < 0.5
    keep[..., 137], keep[..., 41, :] = False, False
    clean = train([q, k, v], Mask(keep), RULES[kind](), level)
    k[:, :, 137, 3], v[:, :, 137], q[:, :, 41] = strange, strange, strange
    for got, truth in zip(train([q, k, v], Mask(keep), RULES[kind](), level), clean, strict=True):
        torch.testing.assert_close(got, truth, rtol=1e-4, atol=1e-5)
    assert (clean[0][:, :, 41] == 0).all()
    assert (clean[1][:, :, 137] == 0).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_q", [3, 70])  # few rows are decoded in the forward pass
@pytest.mark.parametrize("kind", ["softmax", "adaptive with sink", "entmax15"])
def test_a_row_that_sees_nothing_gives_nothing(kind, n_q, level, draw):
    tensors = [t.double() for t in plain_inputs(draw, n_q, n_q)]
    flow = torch.randn(2, 4, n_q, 16, generator=draw, dtype=torch.float64)
    compare(tensors, torch.float32, Mask(diagonal=-1), level, RULES[kind], [flow, None, None, None, None])


@pytest.mark.parametrize("level", LEVELS)
def test_a_strange_key_stays_with_the_rows_that_see_it(level, draw):
    q, k, v = plain_inputs(draw, 70, 150)
    keep = torch.ones(70, 150, dtype=torch.bool)
    keep[:, 137] = torch.arange(70) % 3 == 1
    clean = train([q, k, v], Mask(keep), level=level)[0]
    k[:, :, 137, 3] = math.nan
    found = train([q, k, v], Mask(keep), level=level)[0]
    torch.testing.assert_close(found[:, :, ~keep[:, 137]], clean[:, :, ~keep[:, 137]], rtol=1e-4, atol=1e-5)
    assert found[:, :, keep[:, 137]].isnan().all()


def test_nothing_of_earlier_memory_is_read(draw, monkeypatch):
    tensors = plain_inputs(draw)
    expected = train(tensors, Mask(diagonal=-5))

    def poisoned(maker):
        return lambda *args, **more: maker(*args, **more).fill_(
            -(2**62) if more.get("dtype") == torch.int64 else math.nan
        )

    monkeypatch.setattr(torch.Tensor, "new_empty", poisoned(torch.Tensor.new_empty))
    for strange in (math.nan, 1e30):
        train([torch.full_like(t, strange) for t in plain_inputs(draw, 70, 900)])
        assert all(torch.equal(a, b) for a, b in zip(train(tensors, Mask(diagonal=-5)), expected, strict=True))


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)], ids=str)
def test_only_what_is_wanted(wanted, draw):
    leaves = [t.requires_grad_(want) for t, want in zip(plain_inputs(draw), wanted, strict=True)]
    flow = torch.randn(2, 4, 70, 16, generator=torch.Generator().manual_seed(1))
    out, _ = native.implementation.run(Request(*leaves, Mask(), 0.3, SMOOTH))
    (got,) = torch.autograd.grad(out, [t for t in leaves if t.requires_grad], flow)
    assert torch.equal(got, train([t.detach() for t in leaves])[wanted.index(True)])


def test_numerical_gradients(draw):
    """The definition is not asked: differences of the kernel's own forward pass."""
    q, k, v = plain_inputs(draw, 9, 20, 8, 8, 2, 1)
    bias = torch.randn(9, 20, generator=draw)
    inputs = [q, k, v, bias]

    def loss(q, k, v, bias):
        out, stats = native.implementation.run(Request(q, k, v, Mask(bias=bias), 0.3, SMOOTH, 3.0, return_stats=True))
        return (out.double().sin().sum() + stats.entropy.double().sum()).double()

    leaves = [t.clone().requires_grad_() for t in inputs]
    grads = torch.autograd.grad(loss(*leaves), leaves)
    for i, grad in enumerate(grads):
        way = torch.randn(inputs[i].shape, generator=draw)
        ends = [loss(*(t + h * way if j == i else t for j, t in enumerate(inputs))) for h in (0.02, -0.02)]
        assert float(ends[0] - ends[1]) / 0.04 == pytest.approx(float((grad * way).sum()), rel=5e-3, abs=5e-3)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
@pytest.mark.parametrize("kind", ["adaptive", "ssmax", "half entropy", "entmax15"])
def test_compiled_in_one_graph_with_gradients(kind, draw):
    tensors, rule = plain_inputs(draw, 9, 40), RULES[kind]()
    torch.compiler.reset()

    def attend(*t):
        out, stats = native.implementation.run(Request(*t, Mask(diagonal=31), 0.3, rule, return_stats=True))
        return out.sin().sum() + stats.entropy.sum()

    leaves = [[t.clone().requires_grad_() for t in tensors] for _ in range(2)]
    learned = [*rule.parameters()]
    eager = torch.autograd.grad(attend(*leaves[0]), [*leaves[0], *learned])
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    for a, b in zip(torch.autograd.grad(compiled(*leaves[1]), [*leaves[1], *learned]), eager, strict=True):
        torch.testing.assert_close(a, b)


def test_the_operator_keeps_torchs_rules(draw):
    q, k, v = (t[..., :4, :].requires_grad_() for t in plain_inputs(draw, 9, 20, 8, 8, 2, 1))
    call = gradient.Call(q, k, v, coefficients=[0.1, 1.0], threshold=-1.0, stats=True, train=True)
    torch.library.opcheck(
        torch.ops.strop.native_attention.default, tuple(call), test_utils=["test_schema", "test_faketensor"]
    )


@pytest.mark.parametrize("rule", [Softmax(), strop.normalisers.Sparsemax()], ids=str)
def test_no_rows_and_no_keys(rule):
    for n_q, n_k in ((0, 5), (5, 0)):
        q, k, v = (torch.randn(1, 2, n, 4) for n in (n_q, n_k, n_k))
        for grad, tensor in zip(train([q, k, v], rule=rule), (q, k, v), strict=True):
            assert torch.equal(grad, torch.zeros_like(tensor))
