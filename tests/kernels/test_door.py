"""torch's meaning of every argument that torch has, and clear errors for what makes no sense."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import strop

q, k, v = (torch.randn(2, 4, n, 8, generator=torch.Generator().manual_seed(n)) for n in (5, 7, 7))


@pytest.mark.parametrize("impl", ["auto", "reference", "streaming", "fused_calls", "scaled_query"])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"scale": 0.3},
        {"scale": 0.0},
        {"is_causal": True},
        {"attn_mask": torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) < 0.5},
        {"finite additive attn_mask": torch.randn(2, 1, 5, 7, generator=torch.Generator().manual_seed(0))},
        {"attn_mask": torch.zeros(1, 7).masked_fill(torch.arange(7) > 4, -torch.inf)},
        {"attn_mask": causal_lower_right(5, 7)},
        {"attn_mask": causal_upper_left(5, 7)},
    ],
    ids=lambda a: ", ".join(a) or "plain",
)
def test_softmax_is_torchs_function(arguments, impl):
    if impl == "fused_calls" and "finite additive attn_mask" in arguments:
        return
    arguments = {name.removeprefix("finite additive "): value for name, value in arguments.items()}
    ours, theirs = (
        strop.attention(q, k, v, impl=impl, **arguments),
        F.scaled_dot_product_attention(q, k, v, **arguments),
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_row_that_sees_nothing_is_zero_as_in_torch():
    keep = torch.arange(5)[:, None] != torch.full((1, 7), 2)
    ours, theirs = strop.attention(q, k, v, keep), F.scaled_dot_product_attention(q, k, v, keep)
    assert (ours[:, :, 2] == 0).all()
    torch.testing.assert_close(ours, theirs)


def test_grouped_heads_are_torchs():
    ours = strop.attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    torch.testing.assert_close(ours, F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True))


@pytest.mark.parametrize("low", [-torch.inf, torch.finfo(torch.float32).min], ids=["−inf", "lowest number"])
def test_both_ways_of_writing_never_hide_the_key(low):
    keep = torch.rand(5, 7, generator=torch.Generator().manual_seed(0)) < 0.5
    _, stats = strop.attention(q, k, v, torch.zeros(5, 7).masked_fill(~keep, low), return_stats=True)
    assert torch.equal(stats.n_keys, keep.sum(-1).expand(2, 4, 5))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(query=q.long()), TypeError, "query must be floating point, got torch.int64. Use query.float()"),
        (dict(query=[1.0]), TypeError, "query must be a tensor, got list"),
        (dict(query=q[0, 0, 0]), ValueError, r"query must have at least 2 dimensions \[n, d\]"),
        (dict(key=k.double()), TypeError, "key must be torch.float32 as the query is, got torch.float64"),
        (dict(key=k.to("meta")), ValueError, "key must be on cpu as the query is, got meta"),
        (dict(key=k[:, :3]), ValueError, r"broadcasts with the query's \(2, 4\), got \(2, 3\) and \(2, 4\)"),
        (dict(key=k[..., :3]), ValueError, "key must have the query's head size 8, got 3"),
        (dict(value=v[:, :, :3]), ValueError, "value must have the key's"),
        (dict(key=k[:, :2], value=v[:, :2]), ValueError, "need enable_gqa=True"),
        (
            dict(key=k[:, :3], value=v[:, :3], enable_gqa=True),
            ValueError,
            "key heads must divide the 4 query heads, got 3",
        ),
        (
            dict(key=k[:, :0], value=v[:, :0], enable_gqa=True),
            ValueError,
            "key heads must divide the 4 query heads, got 0",
        ),
        (
            dict(query=q.expand(3, 2, 4, 5, 8), key=k.expand(2, 2, 4, 7, 8), enable_gqa=True),
            ValueError,
            r"must have a batch that broadcasts with the query's \(3, 2\), got \(2, 2\) and \(2,\)",
        ),
        (dict(attn_mask=torch.ones(5, 6, dtype=torch.bool)), ValueError, r"attn_mask must broadcast to \(2, 4, 5, 7\)"),
        (dict(attn_mask=torch.ones(5, 7, dtype=torch.int64)), TypeError, "attn_mask must be bool or floating point"),
        (dict(attn_mask=torch.ones(5, 7).double()), TypeError, "or of the query's dtype, got torch.float64"),
        (dict(attn_mask=torch.ones(5, 7, dtype=torch.bool), is_causal=True), ValueError, "attn_mask must be None"),
        (dict(attn_mask=torch.ones(5, 7, device="meta")), ValueError, "attn_mask must be on cpu, got meta"),
        (dict(attn_mask=causal_lower_right(4, 7)), ValueError, "attn_mask must be made for 5 queries and 7 keys"),
        (dict(dropout_p=1.5), ValueError, r"dropout_p must lie in \[0, 1\], got 1.5"),
        (dict(scale=-1.0), ValueError, "scale must be at least 0, got -1.0"),
        (dict(scale=float("nan")), ValueError, "scale must be a finite number, got nan"),
        (dict(softcap=0.0), ValueError, "softcap must be a finite number greater than 0"),
        (dict(impl="fussed_calls"), ValueError, "impl must be known, got 'fussed_calls'. Did you mean 'fused_calls'"),
        (dict(normaliser="adaptative"), ValueError, "Did you mean 'adaptive'"),
        (dict(normaliser=torch.nn.Softmax(-1)), TypeError, "normaliser must be a Normaliser or a name, got Softmax"),
        (dict(normaliser=strop.normalisers.SSMax(heads=3)), ValueError, "query must have 3 heads as SSMax has"),
        (dict(normaliser="entmax15", impl="fused_calls"), ValueError, "Entmax15 is not of the temperature family"),
        (dict(query=q / 0, impl="fused_calls"), ValueError, "does not keep a NaN or inf to the rows"),
        (dict(key=k / 0, impl="fused_calls"), ValueError, "does not keep a NaN or inf to the rows"),
        (dict(value=v / 0, impl="fused_calls"), ValueError, "does not keep a NaN or inf to the rows"),
        (dict(softcap=2.0, impl="fused_calls"), ValueError, "soft-capped logits"),
        (dict(dropout_p=0.5, impl="fused_calls"), ValueError, "no dropout"),
        (dict(value=v / 0, impl="scaled_query"), ValueError, "does not keep a NaN or inf to the rows"),
        (dict(softcap=2.0, impl="scaled_query"), ValueError, "soft-capped logits"),
        (dict(dropout_p=0.5, impl="scaled_query"), ValueError, "no dropout"),
        (dict(normaliser="adaptive", impl="scaled_query"), ValueError, "AdaptiveTemperature has no β that is known"),
        (dict(normaliser="sink", impl="scaled_query"), ValueError, "the log-sum-exp that a sink needs"),
        (dict(normaliser="ssmax", attn_mask=torch.ones(1, 7), impl="scaled_query"), ValueError, "make it larger"),
        (dict(attn_mask=torch.ones(5, 7), impl="fused_calls"), ValueError, "an additive bias cannot be scaled by row"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_makes_no_sense_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        strop.attention(**{"query": q, "key": k, "value": v, **arguments})
