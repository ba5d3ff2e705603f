"""Time the native kernel against torch's own attention, print ratios and keep them.

    python benchmarks/native.py                      # everything: half an hour
    python benchmarks/native.py --only decode        # one part: one of PARTS
    python benchmarks/native.py --table              # write the kept results into docs/native.md again

Calls alternate in one process, in a new order each round, and a ratio is one of medians. One thread is timed in CPU
seconds of the process, which other programs disturb less; two
threads are timed by the clock.
Results go to benchmarks/results/native.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F

import strop
from strop.kernels import native
from strop.kernels.mask import Mask
from strop.kernels.request import Request
from strop.records import write_text

RESULTS = Path(__file__).parent / "results" / "native.json"
PAGE = Path(__file__).parent.parent / "docs" / "native.md"
PARTS = ("prefill", "decode", "entmax", "growth", "levels", "memory", "training", "training_entmax", "training_memory")
PROCESSES = 7  # from least to most of seven is a 98 % interval of the median
ADAPTIVE, PLAIN = strop.normalisers.AdaptiveTemperature(), strop.normalisers.Softmax()


def call(q, k, v, causal=False, rule=ADAPTIVE, stats=False, level=None):
    """Run the kernel itself."""
    mask = Mask(diagonal=0 if causal else None)
    return native.implementation.run(Request(q, k, v, mask, q.shape[-1] ** -0.5, rule, return_stats=stats), level)


class Times(dict[str, float]):
    """Median seconds by name, and the fastest call of each, which other programs disturbed least."""

    fastest: dict[str, float]


def alternate(functions: dict[str, Callable[[], object]], seconds: float, least: int = 3) -> Times:
    """Median seconds of each, called in rounds for about `seconds` and at least `least` times, after one warm-up."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    order, taken = random.Random(0), {name: list[float]() for name in functions}
    for function in functions.values():
        function()
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(next(iter(taken.values()))) < least:
        for name in order.sample(list(functions), len(functions)):  # none always finds what another left in the caches
            start = clock()
            functions[name]()
            taken[name].append(clock() - start)
    found = Times({name: statistics.median(times) for name, times in taken.items()})
    found.fastest = {name: min(times) for name, times in taken.items()}
    return found


def tensors(n_q: int, n_k: int, d: int, heads: int) -> list[torch.Tensor]:
    """Query, key and value of one batch."""
    draw = torch.Generator().manual_seed(n_k + d)
    return [torch.randn(1, heads, n, d, generator=draw) for n in (n_q, n_k, n_k)]


def prefill(threads: int) -> Iterator[dict[str, object]]:
    """Adaptive temperature, and plain softmax with statistics, against torch's plain attention."""
    for d in (64, 128):
        for n, heads in ((256, 8), (1024, 8), (4096, 2), (16384, threads)):
            for causal in (False, True):
                q, k, v = tensors(n, n, d, heads)
                took = alternate(
                    {
                        "torch": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal),  # noqa: B023
                        "adaptive": lambda: call(q, k, v, causal),  # noqa: B023
                        "statistics": lambda: call(q, k, v, causal, PLAIN, True),  # noqa: B023
                    },
                    4.0,
                )
                work = 4e-9 * n * n * d * heads / (2 if causal else 1)
                yield {
                    "d": d, "n": n, "heads": heads, "causal": causal, "torch_ms": 1e3 * took["torch"],
                    "adaptive_ratio": took["adaptive"] / took["torch"],
                    "statistics_ratio": took["statistics"] / took["torch"],
                    "torch_gflops": work / took["torch"], "adaptive_gflops": work / took["adaptive"],
                }  # fmt: skip


def decode(threads: int) -> Iterator[dict[str, object]]:
    """One query a head against a long cache, and the time of reading that cache once."""
    for n in (4096, 16384, 65536):
        q, k, v = tensors(1, n, 128, 8)
        took = alternate(
            {
                "torch": lambda: F.scaled_dot_product_attention(q, k, v),  # noqa: B023
                "native": lambda: call(q, k, v),  # noqa: B023
                "read": lambda: (k.sum(), v.sum()),  # noqa: B023
            },
            4.0,
        )
        gigabytes = 2 * k.numel() * 4 / 1e9
        yield {
            "n": n, "torch_ms": 1e3 * took["torch"], "ratio": took["native"] / took["torch"],
            "fastest_ratio": took.fastest["native"] / took.fastest["torch"],
            "read_ratio": took["read"] / took["torch"], "gigabytes_per_second": gigabytes / took["native"],
        }  # fmt: skip


def entmax(threads: int) -> Iterator[dict[str, object]]:
    """1.5-entmax attention against the PyPI package on the score matrix."""
    from entmax import entmax15

    q, k, v = tensors(4096, 4096, 64, 1)
    rule = strop.normalisers.Entmax15()
    took = alternate(
        {
            "package": lambda: entmax15(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v,
            "native": lambda: call(q, k, v, rule=rule),
        },
        5.0,
    )
    yield {"n": 4096, "package_ms": 1e3 * took["package"], "times_faster": took["package"] / took["native"]}


def growth(threads: int) -> Iterator[dict[str, object]]:
    """How much longer n = 16384 takes than n = 2048, a head: medians over processes, which differ in their pages."""
    for d in (64, 128):
        program = [sys.executable, __file__, "--grown", str(threads), str(d)]
        found = [
            json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
            for _ in range(PROCESSES)
        ]
        yield {
            "d": d, **{name: statistics.median(one[name] for one in found) for name in ("torch", "native")},
            "ratios": sorted(one["native"] / one["torch"] for one in found),
        }  # fmt: skip


def grown(threads: int, d: int) -> dict[str, float]:
    """The growth in this process. Sixteen short calls do the work of a long one, so that noise hits both alike."""
    torch.set_num_threads(threads)
    short, long = tensors(2048, 2048, d, 4), tensors(16384, 16384, d, 1)

    def sixteen(attention: Callable[..., object]) -> None:
        for _ in range(16):
            attention(*short)

    took = alternate(
        {
            "torch short": lambda: sixteen(F.scaled_dot_product_attention),
            "native short": lambda: sixteen(call),
            "torch long": lambda: F.scaled_dot_product_attention(*long),
            "native long": lambda: call(*long),
        },
        15.0,
        least=5,
    )
    return {name: 64 * took[f"{name} long"] / took[f"{name} short"] for name in ("torch", "native")}


def levels(threads: int) -> Iterator[dict[str, object]]:
    """Each instruction set, and a large matrix product as the limit."""
    q, k, v = tensors(1024, 1024, 128, 8)
    a = torch.randn(2048, 2048)
    functions = {level: (lambda level=level: call(q, k, v, level=level)) for level in native.status().levels}
    limits = {"sgemm 2048": lambda: a @ a, "torch": lambda: F.scaled_dot_product_attention(q, k, v)}
    took = alternate({**functions, **limits}, 5.0)
    work = 4e-9 * 1024 * 1024 * 128 * 8
    for name, seconds in took.items():
        yield {"name": name, "gflops": (2e-9 * 2048**3 if name.startswith("sgemm") else work) / seconds}


def step(attend: Callable[..., torch.Tensor], leaves: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Forward and backward."""
    out = attend(*leaves)
    return torch.autograd.grad(out, leaves, torch.ones_like(out))


def training(threads: int) -> Iterator[dict[str, object]]:
    """Forward and backward of adaptive temperature and plain softmax, against torch's plain attention."""
    for d in (64, 128):
        for n, heads in ((256, 8), (1024, 8), (4096, 2)):
            for causal in (False, True):
                leaves = [t.requires_grad_() for t in tensors(n, n, d, heads)]
                took = alternate(
                    {
                        "torch": lambda: step(partial(F.scaled_dot_product_attention, is_causal=causal), leaves),  # noqa: B023
                        "adaptive": lambda: step(lambda *t: call(*t, causal)[0], leaves),  # noqa: B023
                        "plain": lambda: step(lambda *t: call(*t, causal, PLAIN)[0], leaves),  # noqa: B023
                    },
                    5.0,
                )
                work = 14e-9 * n * n * d * heads / (2 if causal else 1)
                yield {
                    "d": d, "n": n, "heads": heads, "causal": causal, "torch_ms": 1e3 * took["torch"],
                    "adaptive_ratio": took["adaptive"] / took["torch"], "plain_ratio": took["plain"] / took["torch"],
                    "torch_gflops": work / took["torch"], "adaptive_gflops": work / took["adaptive"],
                }  # fmt: skip


def training_entmax(threads: int) -> Iterator[dict[str, object]]:
    """Forward and backward of 1.5-entmax attention against the PyPI package on the score matrix."""
    from entmax import entmax15

    leaves = [t.requires_grad_() for t in tensors(4096, 4096, 64, 1)]
    rule = strop.normalisers.Entmax15()
    took = alternate(
        {
            "package": lambda: step(lambda q, k, v: entmax15(q @ k.mT * q.shape[-1] ** -0.5, dim=-1) @ v, leaves),
            "native": lambda: step(lambda *t: call(*t, rule=rule)[0], leaves),
        },
        5.0,
    )
    yield {"n": 4096, "package_ms": 1e3 * took["package"], "times_faster": took["package"] / took["native"]}


def training_memory(threads: int) -> Iterator[dict[str, object]]:
    """Working memory of forward and backward pass at n = 65,536, beside inputs, output and gradients."""
    program = [sys.executable, __file__, "--peak-back", str(threads)]
    found = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    yield {"n": 65536, "d": 64, "megabytes_a_thread": float(found) / threads}


def peak_back(threads: int) -> float:
    """Megabytes by which a causal forward and backward pass raise the peak, less output and all gradients."""
    torch.set_num_threads(threads)
    q, k, v = (torch.randn(1, threads, 65536, 64, requires_grad=True) for _ in range(3))
    step(lambda *t: call(*t)[0], [t[:, :, :64].detach().requires_grad_() for t in (q, k, v)])
    Path("/proc/self/clear_refs").write_text("5")
    before = _kilobytes("VmRSS")
    grads = step(lambda *t: call(*t, causal=True)[0], [q, k, v])
    return (_kilobytes("VmHWM") - before) / 1024 - (2 * q.numel() + sum(g.numel() for g in grads)) * 4 / 2**20


def memory(threads: int) -> Iterator[dict[str, object]]:
    """Working memory at n = 65,536 beyond inputs and outputs, as the peak of a fresh process grows."""
    program = [sys.executable, __file__, "--peak", str(threads)]
    found = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    yield {"n": 65536, "d": 64, "megabytes_a_thread": float(found) / threads}


def peak(threads: int) -> float:
    """Megabytes by which one causal call at n = 65,536 raises the peak, less its output."""
    torch.set_num_threads(threads)
    q, k, v = (torch.randn(1, threads, 65536, 64) for _ in range(3))
    call(q[:, :, :64], k[:, :, :64], v[:, :, :64])
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak counts anew
    before = _kilobytes("VmRSS")
    out, _ = call(q, k, v, causal=True)
    return (_kilobytes("VmHWM") - before) / 1024 - out.numel() * 4 / 2**20


def _kilobytes(field: str) -> int:
    return next(int(line.split()[1]) for line in _lines("/proc/self/status") if line.startswith(field))


def machine() -> dict[str, object]:
    """What the numbers were taken on."""
    told = dict(line.split(":", 1) for line in _lines("/proc/cpuinfo") if ":" in line)
    cpu = {name.strip(): value.strip() for name, value in told.items()}
    return {
        "cpu": cpu.get("model name", platform.machine()), "family": cpu.get("cpu family"), "cores": os.cpu_count(),
        "instruction_set": native.status().level, "torch": torch.__version__, "date": str(date.today()),
    }  # fmt: skip


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _shown(name: str, value: object) -> str:
    return f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"


def main() -> None:
    """Read arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--threads", type=int, action="append", help="default: 1 and 2")
    parser.add_argument("--table", action="store_true", help="only write docs/native.md from the kept results")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--peak-back", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--grown", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak or options.peak_back or options.grown:
        print(
            peak(options.peak) if options.peak
            else peak_back(options.peak_back) if options.peak_back
            else json.dumps(grown(*options.grown))
        )  # fmt: skip
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for threads in [] if options.table else options.threads or [1, 2]:
        torch.set_num_threads(threads)
        for part in options.only or PARTS:
            rows = []
            for row in globals()[part](threads):
                print(part, f"threads={threads}", *(_shown(*item) for item in row.items()), flush=True)
                rows.append(row)
            results.setdefault(part, {})[str(threads)] = rows
            results.setdefault("machines", {})[part] = machine()
            write_text(RESULTS, json.dumps(results, indent=1) + "\n")
    from native_table import write

    write(results, PAGE)


if __name__ == "__main__":
    main()
