"""Gaps counted by the native kernel and by rows against their definition, `GapCounts.of` all logits in float64.

On numbers whose products and sums are exact in float32, counts are equal, ties at the edges of bins included. On others
a key may count a bin higher or lower where its logit is within rounding of an edge, and nowhere else.
"""

import math

import pytest
import torch
from cases import built
from hypothesis import given
from hypothesis import strategies as st
from test_native import LEVELS, MASKS, like, random_mask, random_tensor
from torch._subclasses import FakeTensorMode

from strop.errors import ArgumentError
from strop.kernels import Mask, Request, count_gaps, native
from strop.kernels.dense import form_logits
from strop.kernels.shapes import repeat_heads
from strop.normalisers import Softmax
from strop.sharpness import GapCounts
from strop.sharpness.gaps import BINS

SCALE = 0.5


def on_grid(tensor):
    """Multiples of 1/4, which bfloat16 holds, in the layout that the tensor has."""
    return tensor.mul_(4).round_().div_(4)


def make_logits(query, key, mask, softcap=None):
    return form_logits(query.double(), repeat_heads(key, query).double(), SCALE, softcap, mask.bias)


def count_natively(query, key, mask, level, softcap=None):
    return native.implementation.count_gaps(Request(query, key, key, mask, SCALE, Softmax(), softcap), level)


def assert_equal(found, expected):
    torch.testing.assert_close(found.top.double(), expected.top.double(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(found.counts, expected.counts)


def assert_within_rounding(found, logits, slack, keep):
    """By every place on the grid: as many keys at or above it as there are surely, and at most as many as may be."""
    keep = torch.ones((), dtype=torch.bool) if keep is None else keep
    least, most = (torch.where(keep, ((logits + by) * 8).floor(), -math.inf) for by in (-slack, slack))
    sure, possible = (places.amax(-1) for places in (least, most))
    assert bool(((sure <= found.top) & (found.top <= possible)).all())
    for b, count in enumerate(found.counts.cumsum(-1).unbind(-1)):
        place = (found.top - b)[..., None]
        seen = found.top.isfinite()
        assert bool((((least >= place).sum(-1) <= count) | ~seen).all())
        assert bool((((most >= place).sum(-1) >= count) | ~seen).all())


cases = {
    "n_q": st.integers(0, 60),
    "n_k": st.integers(1, 300),
    "seed": st.integers(0, 2**32),
    "level": st.sampled_from(LEVELS or ("none",)),
    "dtype": st.sampled_from([torch.float32, torch.bfloat16]),
    "kind": st.sampled_from(MASKS),
    "layouts": st.tuples(*[st.sampled_from(["plain", "heads last", "unaligned", "columns"])] * 2),
    "heads": st.sampled_from([(1, 1), (2, 2), (4, 2), (6, 1)]),
    "d": st.sampled_from([1, 3, 16, 31, 64]),
}


def draw_case(n_q, n_k, seed, kind, layouts, heads, d):
    draw = torch.Generator().manual_seed(seed)
    sizes = (1 + seed % 2, heads[0], n_q, d), (1 + seed % 2, heads[1], n_k, d)
    query, key = (random_tensor(layout, *size, draw) for layout, size in zip(layouts, sizes, strict=True))
    return query, key, random_mask(kind, 1 + seed % 2, heads[0], n_q, n_k, draw)


@built
@given(**cases, loud=st.sampled_from([0.25, 1, 8]))
def test_equal_counts_where_nothing_is_rounded(level, dtype, loud, **case):
    query, key, mask = draw_case(**case)
    query, key = like(on_grid(query).mul_(loud), dtype), like(on_grid(key), dtype)
    bias = None if mask.bias is None else on_grid(mask.bias)
    mask = Mask(mask.keep, bias, mask.diagonal)
    expected = GapCounts.of(make_logits(query, key, mask), mask.dense(query.shape[-2], key.shape[-2], query.device))
    assert_equal(count_natively(query, key, mask, level), expected)


@built
@given(**cases, softcap=st.sampled_from([None, 1.5, 30.0]))
def test_elsewhere_keys_move_only_where_rounding_takes_them_over_an_edge(level, dtype, softcap, **case):
    query, key, mask = draw_case(**case)
    query, key = like(query, dtype), like(key, dtype)
    logits = make_logits(query, key, mask, softcap)
    size = make_logits(query.abs(), key.abs(), Mask())
    slack = 2.0**-22 * (query.shape[-1] * size + (softcap or 0.0) + logits.abs())
    keep = mask.dense(query.shape[-2], key.shape[-2], query.device)
    assert_within_rounding(count_natively(query, key, mask, level, softcap), logits, slack, keep)


@built
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("order", ["as drawn", "rising", "falling"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_rows_whose_top_rises_from_block_to_block(level, order, dtype, draw):
    query, key = (on_grid(torch.randn(1, heads, n, 16, generator=draw)) for heads, n in ((4, 70), (2, 5000)))
    if order != "as drawn":
        key = key[:, :, (query[0, 0, 0] @ key[0, 0].mT).argsort(descending=order == "falling")]
    query, key, mask = query.to(dtype), key.to(dtype), Mask(diagonal=5000 - 70)
    expected = GapCounts.of(make_logits(query, key, mask), mask.dense(70, 5000, query.device))
    whole = count_natively(query, key, mask, level)
    assert_equal(whole, expected)
    halves = [count_natively(query, key[:, :, keys], Mask(mask.dense(70, 5000, query.device)[:, keys]), level)
              for keys in (slice(2500, None), slice(2500))]  # fmt: skip
    assert_equal(halves[0].merge(halves[1]), expected)


@built
def test_any_number_of_threads_counts_the_same(draw):
    query, key = torch.randn(2, 2, 3, 700, 8, generator=draw)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        many = count_natively(query, key, Mask(diagonal=0), None)
    finally:
        torch.set_num_threads(before)
    assert_equal(many, count_natively(query, key, Mask(diagonal=0), None))


@built
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf, -3e37, -1.2e38])
def test_strange_numbers_stay_in_rows_that_may_see_them(level, strange, draw):
    query, key = on_grid(torch.randn(1, 2, 50, 8, generator=draw)), on_grid(torch.randn(1, 2, 200, 8, generator=draw))
    query[..., 0], key[:, :, 137, 0] = 1.0, strange
    keep = torch.rand(50, 200, generator=draw) < 0.5
    keep[4] = torch.arange(200) == 137
    logits = form_logits(query, key, SCALE, None, None)  # float32: what overflows there has no place
    assert_equal(count_natively(query, key, Mask(keep), level), GapCounts.of(logits, keep))


@pytest.mark.parametrize("impl", ["streaming", pytest.param("native", marks=built)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 2, 3)])
def test_the_door_takes_what_attention_takes(impl, batch, draw, monkeypatch):
    monkeypatch.setattr("strop.kernels.shapes.LOGITS_IN_MEMORY", 7 * 33)  # a few rows at a time
    query, key = (on_grid(torch.randn(*batch, n, 16, generator=draw)) for n in (20, 33))
    for given_mask, mask in (
        ({}, Mask()),
        ({"is_causal": True}, Mask(diagonal=0)),
        ({"attn_mask": torch.rand(20, 33, generator=draw) < 0.7}, None),
        ({"attn_mask": torch.zeros(20, 33).masked_fill_(torch.rand(20, 33, generator=draw) < 0.3, -math.inf)}, None),
    ):
        mask = Mask.of(given_mask["attn_mask"]) if mask is None else mask
        expected = GapCounts.of(make_logits(query, key, mask), mask.dense(20, 33, query.device))
        found = count_gaps(query, key, **given_mask, scale=SCALE, impl=impl)
        assert found.counts.shape == (*batch, 20, BINS)
        assert_equal(found, expected)


@pytest.mark.parametrize("impl", ["auto", "streaming"])
def test_grouped_heads_empty_inputs_and_autocast(impl, draw):
    query, key = (on_grid(torch.randn(2, heads, 9, 32, generator=draw)) for heads in (6, 2))
    repeated = count_gaps(query, key.repeat_interleave(3, 1), is_causal=True, impl=impl)
    assert_equal(count_gaps(query, key, is_causal=True, enable_gqa=True, impl=impl), repeated)
    with torch.autocast("cpu", torch.bfloat16):  # casts the tensors, and nothing inside
        assert_equal(count_gaps(query, key.repeat_interleave(3, 1), is_causal=True, impl=impl), repeated)
    assert count_gaps(query[:, :, :0], key, enable_gqa=True, impl=impl).counts.shape == (2, 6, 0, BINS)
    assert count_gaps(query, key[:, :, :0], enable_gqa=True, impl=impl).counts.sum() == 0


def test_tensors_without_numbers_go_by_rows(draw):
    with FakeTensorMode():
        query = torch.zeros(2, 5, 8)
        assert count_gaps(query, query).counts.shape == (2, 5, BINS)
        with pytest.raises(ArgumentError, match="traced tensors have no numbers"):
            count_gaps(query, query, impl="native")
    query = torch.randn(2, 5, 8, generator=draw)
    whole = count_gaps(query, query)
    assert_equal(torch.compile(count_gaps, backend="eager")(query, query), whole)
    assert_equal(torch.vmap(count_gaps)(query, query), whole)


def test_refusals_say_what_to_do(draw, monkeypatch):
    query = torch.randn(2, 4, 8, generator=draw, dtype=torch.float64)
    with pytest.raises(ArgumentError, match=r"impl must be able to count these gaps, got 'native'.*Use impl='auto'"):
        count_gaps(query, query, impl="native")
    assert count_gaps(query, query).counts.sum() == 2 * 4 * 4  # auto: by rows
    with pytest.raises(ArgumentError, match=r"impl must be known, got 'natve'\. Did you mean 'native'"):
        count_gaps(query, query, impl="natve")
    with pytest.raises(ArgumentError, match="key must have the query's head size"):
        count_gaps(query, query[..., :4])
    monkeypatch.setattr("strop.kernels.gaps.shard_here", lambda: object())
    with pytest.raises(ArgumentError, match=r"count_gaps must run outside strop\.sharded"):
        count_gaps(query, query)
