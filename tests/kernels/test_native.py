"""The native kernel meets the definition in float64: random sizes, masks, layouts, normalisers, instruction sets."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import strop
from strop.kernels import native, reference
from strop.kernels.mask import Mask
from strop.kernels.request import Request

LEVELS = native.status().levels
pytestmark = pytest.mark.skipif(not LEVELS, reason=f"not built: {native.status().reason}")

NORMALISERS = {
    "softmax": strop.normalisers.Softmax,
    "softmax β=2.5": lambda: strop.normalisers.Softmax(2.5),
    "softmax β=0": lambda: strop.normalisers.Softmax(0.0),
    "softmax β=-1": lambda: strop.normalisers.Softmax(-1.0),
    "adaptive": strop.normalisers.AdaptiveTemperature,
    "adaptive hold": lambda: strop.normalisers.AdaptiveTemperature(beyond_fit="hold"),
    "ssmax": strop.normalisers.SSMax,
    "log_n": lambda: strop.normalisers.LogN(16),
    "off_by_one": strop.normalisers.OffByOne,
    "adaptive with sink": lambda: strop.normalisers.WithSink(
        strop.normalisers.AdaptiveTemperature(), torch.tensor(0.7)
    ),
    "sparsemax": strop.normalisers.Sparsemax,
    "entmax15": strop.normalisers.Entmax15,
}


def random_mask(kind, batch, heads, n_q, n_k, draw):
    keep = torch.rand(batch, heads, n_q, n_k, generator=draw) < draw_share(draw)
    bias = 2 * torch.randn(1, heads, n_q, n_k, generator=draw, dtype=torch.float64)
    return {
        "none": Mask(),
        "causal": Mask(diagonal=0),
        "lower right": Mask(diagonal=n_k - n_q),
        "far above": Mask(diagonal=-(n_q // 2)),
        "rows": Mask(keep=keep),
        "padding": Mask(keep=keep[:, :1, :1]),
        "one mask for all": Mask(keep=keep[0, 0]),
        "one key column": Mask(keep=keep[..., :1]),
        "transposed": Mask(keep=keep.mT.contiguous().mT),
        "bias": Mask(bias=bias),
        "bias by key": Mask(bias=bias[..., :1, :]),
        "all at once": Mask(keep=keep, bias=bias, diagonal=n_k - n_q),
    }[kind]


MASKS = [
    "none", "causal", "lower right", "far above", "rows", "padding", "one mask for all", "one key column", "transposed",
    "bias", "bias by key", "all at once",
]  # fmt: skip


def draw_share(draw):
    return (0.1, 0.6, 0.95)[int(torch.randint(3, (), generator=draw))]


def random_tensor(layout, batch, heads, n, d, draw):
    """The same shape in the layouts that occur: plain, as Hugging Face makes it, unaligned, last dimension strided."""
    if layout == "heads last":
        return torch.randn(batch, n, heads, d, generator=draw, dtype=torch.float64).transpose(1, 2)
    if layout == "unaligned":
        flat = torch.randn(1 + batch * heads * n * (d + 1), generator=draw, dtype=torch.float64)
        return flat[1:].view(batch, heads, n, d + 1)[..., :d]
    if layout == "columns":
        return torch.randn(batch, heads, d, n, generator=draw, dtype=torch.float64).mT
    return torch.randn(batch, heads, n, d, generator=draw, dtype=torch.float64)


def like(tensor, dtype):
    """Another dtype with the same strides (`to` would make it dense)."""
    copy = torch.empty(1 + tensor.untyped_storage().nbytes() // 8, dtype=dtype)
    view = copy.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return view.copy_(tensor)


def assert_within_budget(got, plain, exact, dtype, what):
    """At most twice the error that the definition makes in the same dtype, plus rounding."""
    for name, a, b, truth in zip(("out", *strop.RowStats._fields), got, plain, exact, strict=True):
        truth = truth.double()
        assert torch.equal(a.isfinite(), truth.isfinite()), (what, name)
        seen = truth.isfinite()
        size = truth[seen].abs().max().item() if seen.any() else 0.0
        eps = torch.finfo(dtype if name == "out" else torch.float32).eps
        budget = 2 * (b.double() - truth)[seen].abs().max().item() + 64 * eps * (1 + size) if seen.any() else 0.0
        error = (a.double() - truth)[seen].abs().max().item() if seen.any() else 0.0
        assert error <= budget, f"{what}: {name} is off by {error:.2e}, budget {budget:.2e}"


def compare(tensors, dtype, mask, level, **settings):
    settings = {"scale": 0.3, "softcap": None, "dropout_p": 0.0, "return_stats": True, **settings}
    tensors = [like(t, dtype) for t in tensors]
    wide = [t.double() for t in tensors]
    out, stats = native.implementation.run(Request(*tensors, mask, **settings), level)
    assert out.dtype == dtype
    bare, _ = native.implementation.run(Request(*tensors, mask, **{**settings, "return_stats": False}), level)
    torch.testing.assert_close(bare, out, equal_nan=True)
    plain, plain_stats = reference.implementation.run(Request(*tensors, mask, **settings))
    exact, exact_stats = reference.implementation.run(Request(*wide, mask, **settings))
    what = (level, dtype, settings["normaliser"], [tuple(t.shape) for t in tensors])
    assert_within_budget([out, *stats], [plain, *plain_stats], [exact, *exact_stats], dtype, what)


cases = {
    "seed": st.integers(0, 2**32),
    "level": st.sampled_from(LEVELS or ("none",)),
    "dtype": st.sampled_from([torch.float32, torch.float32, torch.bfloat16]),
    "kind": st.sampled_from(sorted(NORMALISERS)),
    "mask": st.sampled_from(MASKS),
    "layouts": st.tuples(*[st.sampled_from(["plain", "heads last", "unaligned", "columns"])] * 3),
    "softcap": st.sampled_from([None, None, 1.5, 30.0]),
    "loud": st.sampled_from([0.0, 1e-3, 1.0, 1.0, 5.0]),
    "heads": st.sampled_from([(1, 1), (2, 2), (4, 2), (6, 1)]),
    "d": st.sampled_from([1, 3, 8, 16, 17, 31, 64]),
    "dv": st.sampled_from([1, 2, 5, 8, 24, 64]),
}


def check(n_q, n_k, seed, level, dtype, kind, mask, layouts, softcap, loud, heads, d, dv):
    draw = torch.Generator().manual_seed(seed)
    batch = 1 + seed % 2
    sizes = ((heads[0], n_q, d), (heads[1], n_k, d), (heads[1], n_k, dv))
    q, k, v = (random_tensor(layout, batch, *size, draw) for layout, size in zip(layouts, sizes, strict=True))
    masks = random_mask(mask, batch, heads[0], n_q, n_k, draw)
    compare([q.mul_(loud), k, v], dtype, masks, level, normaliser=NORMALISERS[kind](), softcap=softcap)


@given(n_q=st.integers(0, 80), n_k=st.integers(0, 300), **cases)
def test_blocks_of_rows_meet_the_definition(n_q, n_k, **case):
    check(n_q, n_k, **case)


@given(n_q=st.integers(1, 3), n_k=st.integers(1, 300), **cases)
def test_few_queries_meet_the_definition(n_q, n_k, **case):
    check(n_q, n_k, **case)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["softmax", "adaptive", "off_by_one", "entmax15"])
@pytest.mark.parametrize(("n_q", "n_k", "d"), [(2, 9000, 16), (40, 5000, 256), (70, 9000, 8), (130, 130, 128)])
def test_long_and_wide(level, kind, n_q, n_k, d, draw):
    tensors = [random_tensor("plain", 1, heads, n, d, draw) for heads, n in ((2, n_q), (1, n_k), (1, n_k))]
    for mask in (Mask(), Mask(diagonal=n_k - n_q)):
        compare(tensors, torch.float32, mask, level, normaliser=NORMALISERS[kind](), scale=d**-0.5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["softmax", "adaptive", "entmax15"])
def test_a_row_has_the_same_bits_in_a_unit_of_any_height(level, kind, draw):
    query, key, value = (torch.randn(1, 1, n, 8, generator=draw) for n in (16_400, 300, 300))  # units of 256 rows
    settings = {"scale": 0.3, "softcap": None, "dropout_p": 0.0, "return_stats": True}
    whole, _ = native.implementation.run(
        Request(query, key, value, Mask(), normaliser=NORMALISERS[kind](), **settings), level
    )
    for rows in (slice(0, 70), slice(11_000, 15_100)):  # of 64 and of 128
        request = Request(query[:, :, rows], key, value, Mask(), normaliser=NORMALISERS[kind](), **settings)
        part, _ = native.implementation.run(request, level)
        assert torch.equal(whole[:, :, rows], part)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_q", [1, 40])
@pytest.mark.parametrize("size", [1e-42, 1e-30, 1e4, 1e17, 3e18])
@pytest.mark.parametrize("kind", ["softmax", "adaptive", "sparsemax", "entmax15"])
def test_tiny_and_huge_logits(kind, size, n_q, level, draw):
    """Denormal inputs, and logits whose squares nearly overflow: one key then takes all."""
    q, k, v = (torch.randn(1, 2, n, 8, generator=draw, dtype=torch.float64) for n in (n_q, 70, 70))
    keep = torch.rand(n_q, 70, generator=draw) < 0.7
    compare([q * size, k * size, v], torch.float32, Mask(keep), level, normaliser=NORMALISERS[kind](), scale=1.0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bias", [-3e37, -9e37, -1.5e38])
def test_every_visible_logit_far_below_zero(bias, level, draw):
    """Visible keys must win over hidden ones however low they are."""
    q, k, v = (torch.randn(1, 2, n, 8, generator=draw, dtype=torch.float64) for n in (40, 70, 70))
    keep = torch.rand(40, 70, generator=draw) < 0.5
    compare(
        [q, k, v], torch.float32, Mask(keep, torch.full((40, 70), bias)), level, normaliser=strop.normalisers.Softmax()
    )


@pytest.mark.parametrize("beta", [1e-35, 1e-3, 1e3, 1e35])
@pytest.mark.parametrize("level", LEVELS)
def test_extreme_inverse_temperatures(beta, level, draw):
    q, k, v = (torch.randn(1, 2, n, 8, generator=draw, dtype=torch.float64) for n in (40, 70, 70))
    keep = torch.rand(40, 70, generator=draw) < 0.5
    compare([q, k, v], torch.float32, Mask(keep), level, normaliser=strop.normalisers.Softmax(beta))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_q", [1, 50])
@pytest.mark.parametrize("kind", ["softmax", "adaptive", "sparsemax", "entmax15"])
@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_strange_numbers_stay_in_rows_that_may_see_them(which, strange, kind, n_q, level, draw):
    tensors = [torch.randn(1, 2, n, 8, generator=draw) for n in (n_q, 200, 200)]
    keep = torch.rand(1, 1, n_q, 200, generator=draw) < 0.5
    keep[..., 137] &= torch.arange(n_q) % 3 == 1
    settings = {
        "scale": 0.3,
        "normaliser": NORMALISERS[kind](),
        "softcap": None,
        "dropout_p": 0.0,
        "return_stats": True,
    }
    clean, _ = native.implementation.run(Request(*tensors, Mask(keep), **settings), level)
    tensors[which][:, :, 137 if which else n_q // 2, 3] = strange
    out, stats = native.implementation.run(Request(*tensors, Mask(keep), **settings), level)
    sees = keep[0, 0, :, 137] if which else torch.arange(n_q) == n_q // 2
    torch.testing.assert_close(out[:, :, ~sees], clean[:, :, ~sees])
    exact, truth = reference.implementation.run(Request(*(t.double() for t in tensors), Mask(keep), **settings))
    torch.testing.assert_close(out.double(), exact, rtol=1e-4, atol=1e-5, equal_nan=True)
    for field, expected in zip(stats, truth, strict=True):
        torch.testing.assert_close(field.double(), expected.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
