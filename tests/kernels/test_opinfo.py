"""The samples that PyTorch tests its own scaled_dot_product_attention with (OpInfo), through every implementation.

Loading them builds the samples of all of torch's operators, which takes seconds; hence one test, with subtests.
"""

import functools

import pytest
import torch
import torch.nn.functional as F

import strop
from strop.errors import ArgumentError
from strop.kernels import IMPLEMENTATIONS

REFUSALS = {"native": "float64|dropout|not built", "fused_calls": "dropout|additive bias", "triton": "runs on cuda",
            "scaled_query": "dropout|gradient of the bias", "sharded": "no block of strop.sharded is open"}  # fmt: skip
"""Why an implementation may refuse a sample; one that is not listed refuses none."""


@functools.cache
def samples(dtype):
    from torch.testing._internal.common_methods_invocations import op_db

    (attention,) = [op for op in op_db if op.name == "nn.functional.scaled_dot_product_attention"]
    return list(attention.sample_inputs("cpu", dtype, requires_grad=True))


def describe(sample):
    shapes = [tuple(t.shape) for t in (sample.input, *sample.args)]
    return f"{shapes} { ({k: v for k, v in sample.kwargs.items() if not isinstance(v, torch.Tensor)}) }"


def attend(attention, sample):
    """Output and all gradients. The same seed drops the same weights: both draw once for each of them."""
    mask = sample.kwargs.get("attn_mask")
    leaves = [sample.input, *sample.args, *([mask] if mask is not None and mask.requires_grad else [])]
    torch.manual_seed(0)
    out = attention(sample.input, *sample.args, **sample.kwargs)
    cotangent = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out, *torch.autograd.grad(out, leaves, cotangent)]


def test_samples_of_torchs_own_tests(subtests):
    for dtype in (torch.float64, torch.float32):
        for sample in samples(dtype):
            expected = attend(F.scaled_dot_product_attention, sample)
            for impl in ("auto", *IMPLEMENTATIONS):
                with subtests.test(impl=impl, dtype=dtype, sample=describe(sample)):
                    check(impl, sample, expected)


def check(impl, sample, expected):
    ours = functools.partial(strop.attention, impl=impl)
    try:
        got = attend(ours, sample)
    except ArgumentError:
        with pytest.raises(ArgumentError, match=f"impl={impl!r} cannot run this call: .*({REFUSALS[impl]})"):
            attend(ours, sample)
        return
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if sample.input.dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    for one, truth in zip(got, expected, strict=True):
        torch.testing.assert_close(one, truth, **tolerance)
