"""Drawn cases meet the definition in float64: sizes, masks, layouts, rules, tiles; outputs, statistics, gradients."""

import os

import pytest
import torch
from agreement import OneMoreThanEntropy, compare, set_tiles
from hypothesis import given, settings
from hypothesis import strategies as st

import strop
from strop.kernels import Mask
from strop.normalisers import AdaptiveTemperature, Softmax, SSMax, WithSink

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy, which computes both sides of a where
NIGHTLY = os.environ.get("STROP_HYPOTHESIS") == "nightly"
HEADS = 2


RULES = {
    "softmax": Softmax,
    "softmax β=2.5": lambda: Softmax(2.5),
    "softmax β=0": lambda: Softmax(0.0),
    "softmax β=-1": lambda: Softmax(-1.0),
    "adaptive": AdaptiveTemperature,
    "adaptive hold": lambda: AdaptiveTemperature(beyond_fit="hold"),
    "adaptive detached": lambda: AdaptiveTemperature(detach_beta=True),
    "ssmax": lambda: SSMax(HEADS, bias=True),
    "sink": lambda: strop.normalisers.LearnedSink(HEADS, init=0.5),
    "adaptive with sink": lambda: WithSink(AdaptiveTemperature(), torch.tensor(0.7)),
    "own": OneMoreThanEntropy,
}


def draw_mask(kind, batch, n_q, n_k, draw):
    share = (0.1, 0.6, 0.95)[int(torch.randint(3, (), generator=draw))]
    keep = torch.rand(batch, HEADS, n_q, n_k, generator=draw) < share
    bias = 2 * torch.randn(batch, HEADS, n_q, n_k, generator=draw, dtype=torch.float64)
    return {
        "none": Mask(),
        "causal": Mask(diagonal=0),
        "lower right": Mask(diagonal=n_k - n_q),
        "far above": Mask(diagonal=-(n_q // 2)),
        "rows": Mask(keep=keep),
        "padding": Mask(keep=keep[:, :1, :1]),
        "one mask for all": Mask(keep=keep[0, 0], diagonal=n_k // 2),
        "one key column": Mask(keep=keep[..., :1]),
        "transposed": Mask(keep=keep.mT.contiguous().mT),
        "bias": Mask(bias=bias),
        "bias by key": Mask(bias=bias[:1, :1, :1, :]),
        "all at once": Mask(keep=keep, bias=bias[:1], diagonal=n_k - n_q),
    }[kind]


MASKS = (
    "none", "causal", "lower right", "far above", "rows", "padding", "one mask for all", "one key column", "transposed",
    "bias", "bias by key", "all at once",
)  # fmt: skip


def draw_tensor(layout, shape, draw):
    b, h, n, d = shape
    if layout == "heads last":
        return torch.randn(b, n, h, d, generator=draw).transpose(1, 2)
    if layout == "columns":
        return torch.randn(b, h, d, n, generator=draw).mT
    return torch.randn(shape, generator=draw)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@settings(max_examples=1000 if NIGHTLY else 100)
@given(
    seed=st.integers(0, 2**32),
    rule=st.sampled_from(sorted(RULES)),
    mask=st.sampled_from(MASKS),
    layout=st.sampled_from(["plain", "heads last", "columns"]),
    softcap=st.sampled_from([None, None, None, 1.5, 30.0]),
    loud=st.sampled_from([0.0, 0.3, 1.0, 1.0, 4.0]),
    group=st.sampled_from([1, 2]),
    sizes=st.tuples(st.integers(1, 18), st.integers(1, 36)),
    widths=st.tuples(st.sampled_from([1, 3, 8, 16, 17]), st.sampled_from([1, 5, 16, 18])),
    tiles=st.sampled_from([(16, 16, 1), (16, 32, 1), (32, 16, 1), (64, 64, 1), (16, 16, 2)]),
    stats=st.booleans(),
)
def test_drawn_calls_meet_the_definition(
    seed, dtype, rule, mask, layout, softcap, loud, group, sizes, widths, tiles, stats
):
    draw = torch.Generator().manual_seed(seed)
    (n_q, n_k), (d, d_v) = sizes, widths
    shapes = (1, HEADS, n_q, d), (1, HEADS // group, n_k, d), (1, HEADS // group, n_k, d_v)
    q, k, v = (draw_tensor(layout, shape, draw) for shape in shapes)
    with pytest.MonkeyPatch.context() as patch:
        set_tiles(patch, *tiles)
        compare([loud * q, k, v], draw_mask(mask, 1, n_q, n_k, draw), RULES[rule], dtype, stats, softcap=softcap)
