"""What sharper attention costs: ratios to torch's plain attention in one run, peak memory, the cost of the import.

    python benchmarks/attention.py            # everything, a few minutes
    python benchmarks/attention.py --only speed

Speed: medians of alternating calls, so that a noisy machine disturbs all sides alike. Memory: the rise of a
fresh process's resident memory. Results are printed and written to benchmarks/results/attention.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "attention.json"
HEADS, WIDTH = 4, 64


def main() -> None:
    """Measure what was asked for and keep the rest of the results file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["speed", "door", "training", "memory", "import"])
    parser.add_argument("--measure-memory", metavar="IMPL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure_memory:
        print(memory_of(arguments.measure_memory))
        return
    from strop.records import write_text

    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    parts = {"speed": speed, "door": door, "training": training, "memory": memory, "import": import_cost}
    for name, measure in parts.items():
        if arguments.only in (None, name):
            results[name] = measure()
    write_text(RESULTS, json.dumps(results, indent=1) + "\n")


def speed() -> list[dict[str, object]]:
    """Adaptive temperature by each implementation, and written out, against torch's plain attention."""
    import torch
    import torch.nn.functional as F

    import strop

    torch.set_num_threads(1)
    rows = []
    print(f"one thread, {HEADS} heads of {WIDTH}, float32; time over torch's plain attention")
    for n, causal in ((1024, False), (1024, True), (4096, False), (4096, True)):
        tensors = [torch.randn(1, HEADS, n, WIDTH, generator=torch.Generator().manual_seed(i)) for i in range(3)]
        sharpened = partial(
            strop.attention, *tensors, is_causal=causal, normaliser=strop.normalisers.AdaptiveTemperature()
        )
        calls = {
            "plain": partial(F.scaled_dot_product_attention, *tensors, is_causal=causal),
            "written out": partial(written_out, *tensors, causal),
            **{impl: partial(sharpened, impl=impl) for impl in ("streaming", "fused_calls", "auto")},
        }
        with torch.inference_mode():
            times = medians(calls, repeats=15 if n == 1024 else 7)
        ratios = {name: round(t / times["plain"], 2) for name, t in times.items()}
        rows.append({"n": n, "causal": causal, "plain_ms": round(1e3 * times["plain"], 2), **ratios})
        print(f"n = {n}, {'causal' if causal else 'full'}: " + ", ".join(f"{a} {b:.2f}×" for a, b in ratios.items()))
    return rows


def training() -> list[dict[str, object]]:
    """Forward and backward together, by those that "auto" may choose among, against torch's plain attention."""
    import torch
    import torch.nn.functional as F

    import strop

    torch.set_num_threads(1)
    rows = []
    print("one thread, causal, forward and backward; time over torch's plain attention")
    for batch, heads, n, width in ((1, 2, 8, 16), (64, 2, 16, 16), (64, 4, 64, 32), (1, 8, 1024, 64), (1, 2, 4096, 64)):
        leaves = [torch.randn(batch, heads, n, width).requires_grad_() for _ in range(3)]
        calls = {"plain": partial(F.scaled_dot_product_attention, *leaves, is_causal=True)}
        for rule, impls in (("softmax", ("scaled_query", "native")), ("adaptive", ("fused_calls", "native"))):
            for impl in impls:
                sharpened = partial(strop.attention, *leaves, is_causal=True, normaliser=rule, impl=impl)
                calls[f"{rule} by {impl}"] = sharpened
        times = medians({name: lambda call=call: call().sum().backward() for name, call in calls.items()}, repeats=9)
        ratios = {name: round(t / times["plain"], 2) for name, t in times.items()}
        rows.append({"n": n, "plain_ms": round(1e3 * times["plain"], 2), **ratios})
        print(f"n = {n}: " + ", ".join(f"{a} {b:.2f}×" for a, b in ratios.items()))
    return rows


def medians(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each call; all are called in turn, after one warm-up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(list_[1:]) for name, list_ in times.items()}


def written_out(q, k, v, causal):  # type: ignore[no-untyped-def]
    """The formula as one would write it: every matrix n × n."""
    import torch

    e = q @ k.mT / q.shape[-1] ** 0.5
    if causal:
        e = e.masked_fill(~torch.ones(e.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
    p = e.softmax(-1)
    H = -torch.where(p > 0, p * p.log(), 0.0).sum(-1, keepdim=True)
    P = -0.037 * H**4 + 0.481 * H**3 - 2.3 * H**2 + 4.917 * H - 1.791
    return (torch.where(H > 0.5, P.clamp(min=1.0), 1.0) * e).softmax(-1) @ v


def door() -> dict[str, float]:
    """What the checks and the choice add to a small call, over calling the chosen implementation directly."""
    import torch

    import strop
    from strop.kernels import Mask, Request
    from strop.kernels.dispatch import choose

    torch.set_num_threads(1)
    q, k, v = (torch.randn(1, 8, 16, 64, generator=torch.Generator().manual_seed(i)) for i in range(3))
    rule = strop.normalisers.AdaptiveTemperature()
    request = Request(q, k, v, Mask(), 64**-0.5, rule)
    chosen = choose("auto", request)

    def many(call: Callable[[], object]) -> Callable[[], object]:
        return lambda: [call() for _ in range(1000)]

    times = medians(
        {
            "direct": many(lambda: chosen.run(request)),
            "object": many(lambda: strop.attention(q, k, v, normaliser=rule)),
            "name": many(lambda: strop.attention(q, k, v, normaliser="adaptive")),
        },
        repeats=9,
    )
    found = {"over_direct": times["object"] / times["direct"], "name_over_object": times["name"] / times["object"]}
    print(
        f"the door on 1×8×16×64 by auto: {times['direct'] * 1e3:.0f} µs directly, {found['over_direct']:.2f} × by "
        f"strop.attention; a name over an object {found['name_over_object']:.2f} ×"
    )
    return {name: round(value, 3) for name, value in found.items()}


def memory() -> dict[str, float]:
    """Peak extra megabytes of one causal call of adaptive attention at n = 65,536, one head of 64."""
    results = {}
    for impl in ("fused_calls", "streaming", "auto"):
        command = [sys.executable, __file__, "--measure-memory", impl]
        results[impl] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"peak extra memory at n = 65,536: {impl} {results[impl]:.0f} MB (the matrix alone would take 17,180 MB)")
    return results


def memory_of(impl: str) -> float:
    """In a fresh process: warm up on a small call, then see how far the resident memory rises during a large one."""
    import torch

    import strop

    torch.set_num_threads(2)
    for n in (256, 65_536):
        q, k, v = (torch.randn(1, 1, n, 64) for _ in range(3))
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = resident("VmRSS")
        with torch.inference_mode():
            strop.attention(q, k, v, is_causal=True, normaliser="adaptive", impl=impl)
    return resident("VmHWM") - before


def resident(which: str) -> float:
    """Megabytes of resident memory: VmRSS now, VmHWM at the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(which))


def import_cost() -> dict[str, float]:
    """Seconds of `import torch` alone and with strop's attention, medians of alternating fresh processes."""
    programs = {"torch": "import torch", "strop": "import torch, strop; strop.attention"}

    def run(program: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", program], check=True)

    times = medians({name: run(program) for name, program in programs.items()}, repeats=9)
    added = times["strop"] / times["torch"] - 1
    print(f"import torch {times['torch']:.2f} s, with strop.attention {times['strop']:.2f} s: {100 * added:+.1f} %")
    return {"torch_s": round(times["torch"], 3), "strop_s": round(times["strop"], 3), "added": round(added, 4)}


if __name__ == "__main__":
    main()
