"""The Triton kernels without a card: interpreted in a process of their own, compiled, dispatched by fake tensors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import strop
from strop.kernels import IMPLEMENTATIONS, Mask, Request, dispatch
from strop.kernels import triton as kernels
from strop.normalisers import AdaptiveTemperature, Softmax, Sparsemax

ROOT = Path(__file__).parents[2]
RULE = AdaptiveTemperature()


def run(*command, **environment):
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, env=os.environ | environment
    )


def test_the_kernels_meet_the_definition_in_the_interpreter():
    ran = run("-m", "pytest", "-n", "0", "tests/kernels/interpreted", TRITON_INTERPRET="1")
    assert ran.returncode == 0, ran.stdout[-5000:]


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_the_forward_kernel_compiles_without_a_card(target, tmp_path):
    ran = run("tools/compile_gpu.py", target, "bfloat16", "64", "attend_blocks", TRITON_CACHE_DIR=str(tmp_path))
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "0 bytes spilled" in ran.stdout


def test_the_benchmark_says_what_it_needs_without_a_card():
    ran = run("benchmarks/gpu.py")
    assert ran.returncode == 2
    assert "needs a CUDA or ROCm card" in ran.stdout


@pytest.fixture
def request_on_a_card():
    with FakeTensorMode():
        q = torch.zeros(1, 2, 3, 64, device="cuda", dtype=torch.bfloat16)
        yield Request(q, q, q, Mask(diagonal=0), 0.125, RULE)


def test_a_card_takes_triton(request_on_a_card):
    assert dispatch.choose("triton", request_on_a_card) is kernels.implementation
    assert type(dispatch.choose("auto", request_on_a_card)).__name__ == "Triton"


def test_the_operator_knows_its_results_on_a_card(request_on_a_card):
    from strop.kernels.triton.call import KernelCall, call_kernels

    out, rows, extremes, counts = call_kernels(KernelCall(*request_on_a_card[:3], stats=True))
    assert (out.shape, out.dtype, out.device.type) == ((1, 2, 3, 64), torch.bfloat16, "cuda")
    assert rows.shape[1:] == extremes.shape[1:] == counts.shape == (1, 2, 3)
    assert (rows.dtype, extremes.dtype, counts.dtype) == (torch.float32, torch.float32, torch.int64)


REFUSED = {
    "head sizes from 1 to 256": lambda r: r._replace(query=r.query.new_zeros(1, 2, 3, 257)),
    "float32, float16 and bfloat16": lambda r: r._replace(query=r.query.double()),
    "Sparsemax is not of the temperature family": lambda r: r._replace(normaliser=Sparsemax()),
    "no dropout": lambda r: r._replace(dropout_p=0.1),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_the_kernels_do_not_do_is_refused(reason, request_on_a_card):
    assert reason in kernels.implementation.find_obstacle(REFUSED[reason](request_on_a_card))


def test_missing_triton_is_an_obstacle(request_on_a_card, monkeypatch):
    monkeypatch.setattr(kernels, "MISSING", "triton is not installed (pip install 'strop[gpu]')")
    with pytest.raises(ValueError, match=r"triton is not installed \(pip install 'strop\[gpu\]'\)"):
        dispatch.choose("triton", request_on_a_card)
    assert type(dispatch.choose("auto", request_on_a_card)).__name__ != "Triton"


def test_tensors_on_the_cpu_are_refused():
    q = torch.zeros(1, 2, 3, 4)
    with pytest.raises(ValueError, match="triton runs on cuda, and the query is on cpu"):
        strop.attention(q, q, q, normaliser=Softmax(), impl="triton")
    assert IMPLEMENTATIONS["triton"].devices == ("cuda",)
