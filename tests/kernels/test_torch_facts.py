"""What strop takes for granted of torch's CUDA kernels, asked of the torch that is installed: no card is needed.

The headers of the memory-efficient kernel come with torch, and fake tensors tell what its operators return.
"""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

HEADERS = Path(torch.__file__).parent / "include/ATen/native/transformers/cuda/mem_eff_attention"
needs_headers = pytest.mark.skipif(not HEADERS.exists(), reason="needs torch's headers, which its wheels have")


@pytest.mark.parametrize("n_q", [1, 32, 33])
def test_the_log_sum_exp_is_float32_and_padded_to_32_rows(n_q):
    with FakeTensorMode():
        q, k = (torch.empty(2, 3, n, 16, device="cuda") for n in (n_q, 40))
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        out, logsumexp, _, _ = attend(q, k, k, None, True)
    assert out.shape == (2, 3, n_q, 16)
    assert (logsumexp.shape, logsumexp.dtype) == ((2, 3, -(-n_q // 32) * 32), torch.float32)


@needs_headers
def test_the_memory_efficient_kernel_adds_up_in_float32():
    source = (HEADERS / "kernel_forward.h").read_text()
    for fact in ("using accum_t = float;", "using lse_scalar_t = float;", "kAlignLSE = 32;"):
        assert fact in source


@needs_headers
def test_its_float32_products_are_not_rounded_to_tf32():
    """Each number goes in as two TF32 parts, three products for one."""
    source = (HEADERS / "gemm_kernel_utils.h").read_text()
    part = source[source.index("Specialization for tensorcores with f32") :]
    assert re.search(r"using Operator = cutlass::arch::(\w+);", part)[1] == "OpMultiplyAddFastF32"
    assert re.search(r"kMinimumAlignment = (\d+);", part)[1] == "4"


def test_groups_are_taken_by_the_flash_kernel_alone():
    assert "currently works only for Flash_attention\n        and math kernel" in F.scaled_dot_product_attention.__doc__
