"""What a probe costs on SmolLM2: time against a plain sdpa forward and against attention matrices, and memory.

    python benchmarks/probe.py time --n 2048 --threads 1
    python benchmarks/probe.py memory            # 1k, 2k, 4k, 8k, each in a process of its own

`plain` is the model's own sdpa forward; `probe` the same forward under `strop.observed`; `matrices` eager
attention with output_attentions=True and the entropy of every row, which is what one writes without strop.
All without the language-model head, interleaved; the least of the rounds counts, by the wall clock and by
processor time (which a busy machine disturbs less). Memory is the peak resident
set above that after loading and one short forward.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def opened(n: int) -> tuple[Any, Tensor]:
    """SmolLM2 without its head, and n tokens."""
    from strop.pretrained import load_model
    from strop.pretrained.text import cut_lengths, default_text

    model, tokeniser = load_model("smollm2", head=False)
    return model, cut_lengths(tokeniser, default_text(), (n,), samples=1)[n]


def plain(model: Any, ids: Tensor) -> None:
    """The model's own forward."""
    model(input_ids=ids, use_cache=False)


def probed(model: Any, ids: Tensor) -> None:
    """The same, measured."""
    from strop.patching import observed

    with observed(model):
        model(input_ids=ids, use_cache=False)


def matrices(model: Any, ids: Tensor) -> None:
    """Eager attention, its matrices, and their entropies."""
    model.set_attn_implementation("eager")
    out = model(input_ids=ids, use_cache=False, output_attentions=True)
    for weights in out.attentions:
        torch.special.entr(weights).sum(-1)
    model.set_attn_implementation("sdpa")


def seconds(work: Callable[[Any, Tensor], None], model: Any, ids: Tensor) -> tuple[float, float]:
    """Wall time and processor time of one call."""
    start = time.perf_counter(), time.process_time()
    work(model, ids)
    return time.perf_counter() - start[0], time.process_time() - start[1]


def measure_time(n: int, threads: int, rounds: int, eager: bool) -> None:
    """Print the least times and their ratios."""
    torch.set_num_threads(threads)
    model, ids = opened(n)
    works = {"plain": plain, "probe": probed} | ({"matrices": matrices} if eager else {})
    with torch.inference_mode():
        for work in works.values():
            work(model, ids[:, :64])
        times = {name: [] for name in works}
        for _ in range(rounds):
            for name, work in works.items():
                times[name].append(seconds(work, model, ids))
    for clock, label in enumerate(("wall", "processor")):
        least = {name: min(pair[clock] for pair in values) for name, values in times.items()}
        ratios = {f"{name}/plain": round(value / least["plain"], 3) for name, value in least.items()}
        print(json.dumps({"clock": label, "n": n, "threads": threads, "seconds": least, **ratios}))
    print(json.dumps({"rounds": times}))


def peak() -> int:
    """Peak resident set in kilobytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def measure_memory(n: int, kind: str, layers: int) -> None:
    """Print the peak above the loaded model of one forward through the first `layers` layers."""
    torch.set_num_threads(1)
    model, ids = opened(n)
    model.layers = model.layers[:layers]  # one layer after another, and none keeps anything: fewer only save time
    work = {"plain": plain, "probe": probed}[kind]
    with torch.inference_mode():
        work(model, ids[:, :64])
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = peak()
        work(model, ids)
    above = round((peak() - before) / 1024, 1)
    print(json.dumps({"n": n, "kind": kind, "layers": len(model.layers), "megabytes": above}))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["time", "memory", "one"])
    parser.add_argument("--n", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=["plain", "probe"], default="probe")
    parser.add_argument("--no-eager", action="store_true")
    parser.add_argument("--layers", type=int, default=30)
    given = parser.parse_args()
    if given.what == "time":
        measure_time(given.n, given.threads, given.rounds, not given.no_eager)
    elif given.what == "one":
        measure_memory(given.n, given.kind, given.layers)
    else:
        for n in (1024, 2048, 4096, 8192):
            for kind in ("plain", "probe"):
                command = ["one", "--n", str(n), "--kind", kind, "--layers", str(given.layers)]
                subprocess.run([sys.executable, __file__, *command], check=True)


if __name__ == "__main__":
    main()
