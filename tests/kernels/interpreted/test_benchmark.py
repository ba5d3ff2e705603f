"""benchmarks/gpu.py from its first line to its last: the kernels interpreted, one call for a time, small sizes."""

import inspect
import runpy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import flex_attention

from strop.kernels import IMPLEMENTATIONS

pytestmark = pytest.mark.filterwarnings("ignore")  # numpy's, and those of FlexAttention where it is not compiled
SIGNATURE = inspect.signature(flex_attention.flex_attention)
BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "gpu.py"
SMALL = {
    "DEVICE": "cpu", "PREFILL": [(1, 2, 16, 16)], "DECODE": [(1, 2, 1, 600, 16)],
    "CHECKS": [(16, 9, 17), (16, 1, 20)], "DTYPE": torch.float32, "find_need": lambda: None,
}  # fmt: skip


def run_once(function):
    function()
    return 1.0


def flex_on_the_cpu(q, k, v, **more):
    """FlexAttention has no backward pass on the CPU: its arguments are checked, and torch's attention is run."""
    SIGNATURE.bind(q, k, v, **more)
    return F.scaled_dot_product_attention(q, k, v, is_causal="block_mask" in more, enable_gqa="enable_gqa" in more)


def test_every_line_of_the_benchmark_runs(monkeypatch, capsys):
    monkeypatch.setitem(IMPLEMENTATIONS, "triton", IMPLEMENTATIONS["triton"]._replace(devices=None))
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(flex_attention, "flex_attention", flex_on_the_cpu)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "no card")
    main = runpy.run_path(str(BENCHMARK))["main"]
    main.__globals__.update(SMALL, milliseconds=run_once)
    assert main() == 0
    said = capsys.readouterr().out
    assert "WRONG" not in said
    assert said.count("right: ") == 6
    assert [line.split("|")[1].split()[0] for line in said.splitlines() if "| 1.00 |" in line] == [
        "prefill", "forward", "decode"
    ]  # fmt: skip
