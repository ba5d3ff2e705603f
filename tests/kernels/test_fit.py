"""Shapes and dtypes as in torch's function: broadcast batches, autocast, mixed dtypes, empty tensors."""

import pytest
import torch
import torch.nn.functional as F

import strop
from strop.kernels import IMPLEMENTATIONS
from strop.kernels.fit import fit_tensors

IMPLS = ["auto", *(name for name in IMPLEMENTATIONS if name not in ("triton", "sharded"))]  # a card; a group of ranks
HALVES = [torch.bfloat16, torch.float16]


def draw_three(shapes, dtype=torch.float32, grad=False):
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=draw).to(dtype).requires_grad_(grad) for shape in shapes]


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(
    ("batches", "enable_gqa"),
    [
        (((2, 3), (1, 3), (2, 3)), False),
        (((2, 3), (2, 1), (2, 1)), False),
        (((1, 3), (2, 3), (2, 3)), False),
        (((), (2, 3), (2, 3)), False),
        (((2, 3), (), ()), False),
        (((3,), (2, 1), ()), False),
        (((2, 3, 4), (3, 1), (2, 1, 4)), False),
        (((2, 4), (1, 2), (1, 2)), True),
        (((4,), (2, 2), (2, 2)), True),
        (((2, 4), (2, 2), (2, 4)), True),
        (((2, 5, 4), (2, 1, 2), (2, 5, 2)), True),
        (((2, 0), (2, 0), (2, 0)), True),
    ],
    ids=str,
)
def test_batches_broadcast_as_in_torch(batches, enable_gqa, impl):
    shapes = [(*batch, *rest) for batch, rest in zip(batches, ((5, 8), (7, 8), (7, 8)), strict=True)]
    ours, theirs = draw_three(shapes, grad=True), draw_three(shapes, grad=True)
    out = strop.attention(*ours, enable_gqa=enable_gqa, impl=impl)
    truth = F.scaled_dot_product_attention(*theirs, enable_gqa=enable_gqa)
    torch.testing.assert_close(out, truth)
    grads = (torch.autograd.grad(o.square().sum(), leaves) for o, leaves in ((out, ours), (truth, theirs)))
    for got, expected in zip(*grads, strict=True):
        torch.testing.assert_close(got, expected)


def test_nothing_is_copied_to_broadcast():
    given = draw_three([(5, 8), (2, 1, 7, 8), (3, 7, 8)])
    for before, after in zip(given, fit_tensors(*given, enable_gqa=False), strict=True):
        assert after.shape[:2] == (2, 3)
        assert after.data_ptr() == before.data_ptr()


def outcome(attend, tensors, mask):
    """The dtype that comes out, or that the call is refused."""
    try:
        return attend(*tensors, attn_mask=mask).dtype
    except (RuntimeError, TypeError):
        return "refused"


@pytest.mark.parametrize("asked", [None, *HALVES], ids=str)
def test_dtypes_are_taken_and_refused_as_in_torch(asked):
    dtypes = [torch.float32, torch.float64, *HALVES]
    base = draw_three([(2, 5, 8), (2, 7, 8), (2, 7, 8)])
    cases = [((a, b, b), None) for a in dtypes for b in dtypes] + [((a, a, a), m) for a in dtypes for m in dtypes]
    with torch.autocast("cpu", dtype=asked, enabled=asked is not None):
        for given, mask in cases:
            tensors = [t.to(dtype) for t, dtype in zip(base, given, strict=True)]
            table = None if mask is None else torch.zeros(5, 7, dtype=mask)
            expected = outcome(F.scaled_dot_product_attention, tensors, table)
            assert outcome(strop.attention, tensors, table) == expected, (given, mask)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("asked", HALVES, ids=str)
def test_autocast_rounds_the_inputs_and_nothing_inside(asked, impl):
    if impl == "native" and asked == torch.float16:
        return
    tensors = draw_three([(2, 2, 9, 8), (2, 2, 40, 8), (2, 2, 40, 8)], grad=True)
    rounded = [t.detach().to(asked).requires_grad_() for t in tensors]
    rule = "llama4" if impl == "scaled_query" else "adaptive"
    expected = strop.attention(*rounded, normaliser=rule, impl=impl)
    with torch.autocast("cpu", dtype=asked):
        out = strop.attention(*tensors, normaliser=rule, impl=impl)
    grads = torch.autograd.grad(out.sum(), tensors)  # outside, as torch asks for
    assert out.dtype == asked
    assert torch.equal(out, expected)
    for got, truth in zip(grads, torch.autograd.grad(expected.sum(), rounded), strict=True):
        assert torch.equal(got, truth.float())


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("normaliser", ["softmax", "adaptive"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("empty", range(6))
def test_empty_tensors_keep_their_graph(empty, is_causal, normaliser, impl):
    if (normaliser, impl) == ("adaptive", "scaled_query"):
        return  # whose β is not known beforehand
    sizes = [2, 3, 5, 7, 8, 8]
    sizes[empty] = 0
    batch, heads, n_q, n_k, d, d_v = sizes
    leaves = draw_three([(batch, heads, n_q, d), (batch, heads, n_k, d), (batch, heads, n_k, d_v)], grad=True)
    out = strop.attention(*leaves, is_causal=is_causal, normaliser=normaliser, impl=impl)
    assert out.shape == (batch, heads, n_q, d_v)
    assert out.grad_fn is not None
    grads = torch.autograd.grad(out.sum(), leaves)
    assert all(grad.shape == leaf.shape and grad.isfinite().all() for grad, leaf in zip(grads, leaves, strict=True))
    if n_k == 0:
        assert (out == 0).all()
    elif d == 0 and normaliser == "softmax" and not is_causal:
        torch.testing.assert_close(out, leaves[2].mean(-2, keepdim=True).expand_as(out))
