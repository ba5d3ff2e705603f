"""torch.func, batched gradients, tensors without numbers and torch.export: as with torch's own function."""

from functools import partial

import pytest
import torch
from cases import built
from torch._subclasses import FakeTensorMode
from torch.func import grad, jacrev, vmap

import strop
from strop.kernels import IMPLEMENTATIONS, shapes

RULES = ["softmax", "adaptive", "entmax15"]
IMPLS = ["auto", "streaming", "reference"]


@pytest.fixture
def three(draw):
    return [torch.randn(3, 2, 4, n, 8, generator=draw) for n in (5, 6, 6)]


def loss(attend, *tensors):
    return attend(*tensors).square().sum()


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("rule", RULES)
def test_vmap_is_a_batch_dimension(rule, impl, three):
    attend = partial(strop.attention, normaliser=rule, impl=impl, is_causal=True)
    q, k, v = three
    expected = attend(q, k, v)
    torch.testing.assert_close(vmap(attend)(q, k, v), expected)
    torch.testing.assert_close(vmap(vmap(attend))(q, k, v), expected)
    mixed = vmap(attend, in_dims=(1, None, 3))(q.transpose(0, 1), k[0], v.movedim(0, 3))
    torch.testing.assert_close(mixed, attend(q, k[0], v))


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("rule", RULES)
def test_transforms_of_gradients(rule, impl, three):
    attend = partial(strop.attention, normaliser=rule, impl=impl)
    leaves = [t.clone().requires_grad_() for t in three]
    expected = torch.autograd.grad(loss(attend, *leaves), leaves)
    each = vmap(grad(partial(loss, attend), argnums=(0, 1, 2)))(*three)
    whole = grad(lambda *t: vmap(attend)(*t).square().sum(), argnums=(0, 1, 2))(*three)
    outside = torch.autograd.grad(vmap(attend)(*leaves).square().sum(), leaves)
    for got in (each, whole, outside):
        for one, truth in zip(got, expected, strict=True):
            torch.testing.assert_close(one, truth, rtol=1e-5, atol=2e-6 * float(truth.abs().max()))


def test_jacobian(three):
    q, k, v = (t[0, 0, 0] for t in three)
    expected = torch.autograd.functional.jacobian(lambda q: strop.attention(q, k, v, normaliser="adaptive"), q)
    torch.testing.assert_close(jacrev(lambda q: strop.attention(q, k, v, normaliser="adaptive"))(q), expected)


@pytest.mark.parametrize("impl", ["native", "fused_calls"])
def test_a_kernel_that_vmap_cannot_see_into_says_so(impl, three):
    if impl == "native" and strop.kernels.native.MISSING:
        return
    with pytest.raises(ValueError, match=r"no rules for torch\.func's transforms"):
        vmap(partial(strop.attention, impl=impl))(*three)


@pytest.mark.parametrize("impl", ["auto", *(name for name in IMPLEMENTATIONS if name != "sharded")])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
def test_gradients_in_a_batch_are_gradients_one_by_one(dropout_p, rule, impl, three, monkeypatch):
    monkeypatch.setattr(shapes, "LOGITS_IN_MEMORY", 100)  # several blocks of rows
    leaves = [t[0].clone().requires_grad_() for t in three]
    try:
        out = strop.attention(*leaves, dropout_p=dropout_p, normaliser=rule, impl=impl)
    except strop.errors.ArgumentError:
        assert impl in ("native", "fused_calls", "scaled_query", "triton")
        return
    many = torch.linspace(-1, 1, 4 * out.numel()).view(4, *out.shape)
    batched = torch.autograd.grad(out, leaves, many, is_grads_batched=True, retain_graph=True)
    singly = [torch.autograd.grad(out, leaves, one, retain_graph=True) for one in many]
    for got, parts in zip(batched, zip(*singly, strict=True), strict=True):
        torch.testing.assert_close(got, torch.stack(parts))


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_dropout_under_vmap_asks_for_its_randomness(randomness, three):
    attend = partial(strop.attention, dropout_p=0.5)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(attend)(*three)
    twins = [t[:1].expand(3, *t.shape[1:]) for t in three]
    out = vmap(attend, randomness=randomness)(*twins)
    assert torch.equal(out[0], out[1]) == (randomness == "same")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("stats", [False, True])
@pytest.mark.parametrize("wants", [False, True])
def test_tensors_without_numbers_give_shapes(wants, stats, rule, three):
    given = [*(t.requires_grad_(wants) for t in three), torch.zeros(5, 6)]

    def check(tensors, impl):
        result = strop.attention(*tensors, normaliser=rule, return_stats=stats, impl=impl)
        out, rows = result if stats else (result, ())
        assert out.shape == three[0].shape
        assert out.requires_grad == wants
        assert all(field.shape == out.shape[:-1] for field in rows)

    for impl in IMPLS:
        check([t.to("meta") for t in given], impl)
        with FakeTensorMode() as fake:
            check([fake.from_tensor(t) for t in given], impl)


class Attention(torch.nn.Module):
    def __init__(self, **arguments):
        super().__init__()
        self.arguments = arguments

    def forward(self, q, k, v, mask=None):
        return strop.attention(q, k, v, mask, enable_gqa=True, **self.arguments)


def grouped(n_q, n_k, batch, grad=False):
    draw = torch.Generator().manual_seed(n_q)
    return [torch.randn(batch, h, n, 8, generator=draw).requires_grad_(grad) for h, n in ((4, n_q), (2, n_k), (2, n_k))]


@built
@pytest.mark.parametrize(("rule", "wants"), [("softmax", False), ("adaptive", True), ("entmax15", True)])
def test_exported_with_open_sizes(rule, wants):
    dim = torch.export.Dim
    b, n, m = dim("b", min=1, max=64), dim("n", min=2, max=4096), dim("m", min=2, max=4096)
    module = Attention(normaliser=rule)
    masked = (*grouped(9, 12, 2, wants), torch.ones(9, 12, dtype=torch.bool))
    sizes = {"q": {0: b, 2: n}, "k": {0: b, 2: m}, "v": {0: b, 2: m}, "mask": {0: n, 1: m}}
    exported = torch.export.export(module, masked, dynamic_shapes=sizes).module()
    for n_q, n_k in ((17, 33), (40, 20)):
        keep = torch.arange(n_k) <= torch.arange(n_q)[:, None]
        given = (*grouped(n_q, n_k, 3), keep)
        torch.testing.assert_close(exported(*given), module(*given))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
def test_compiled_once_for_all_sizes():
    module, graphs = Attention(normaliser=strop.normalisers.AdaptiveTemperature(), is_causal=True), []
    torch.compiler.reset()
    compiled = torch.compile(
        module, fullgraph=True, dynamic=True, backend=lambda graph, _: graphs.append(graph) or graph
    )
    for n_q, n_k in ((9, 12), (17, 33), (30, 31)):
        given = grouped(n_q, n_k, 2)
        torch.testing.assert_close(compiled(*given), module(*given))
    assert len(graphs) <= 2  # the second once, after the first call has loaded what it needs
