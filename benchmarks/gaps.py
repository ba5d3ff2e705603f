"""What counting gaps costs beside plain attention; some ten seconds.

    python benchmarks/gaps.py

Counting forms the logits once and looks at no values. "By rows" is the definition, a block at a time. "answers" counts
3 rows of 8 questions in 9 heads against 2,040 keys, in milliseconds: from logits that are at hand, as a diagnosis does,
and by the kernel, which has to form them. Processor time, one thread, medians of ROUNDS calls that take turns.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping

import torch

import strop
from strop.kernels import count_gaps
from strop.sharpness import GapCounts

ROUNDS = 7


def milliseconds(ways: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The median of each way."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS + 1):
        for name, way in ways.items():
            start = time.process_time()
            way()
            taken[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def main() -> None:
    """Measure, and print a line for each case."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    for causal in (False, True):
        q, k, v = torch.randn(3, 1, 2, 4096, 64, generator=draw)
        found = milliseconds({
            "plain": lambda: strop.attention(q, k, v, is_causal=causal, impl="native"),  # noqa: B023
            "gaps": lambda: count_gaps(q, k, is_causal=causal, impl="native"),  # noqa: B023
            "gaps by rows": lambda: count_gaps(q, k, is_causal=causal, impl="streaming"),  # noqa: B023
        })  # fmt: skip
        shares = {f"{name} / plain": round(found[name] / found["plain"], 2) for name in ("gaps", "gaps by rows")}
        print(json.dumps({"n": 4096, "d": 64, "causal": causal, "plain, ms": round(found["plain"]), **shares}))
    q, k = torch.randn(8, 9, 3, 64, generator=draw), torch.randn(8, 3, 2040, 64, generator=draw)
    logits = (q * 0.125) @ k.repeat_interleave(3, 1).mT
    found = milliseconds({
        "of logits": lambda: GapCounts.of(logits), "native": lambda: count_gaps(q, k, enable_gqa=True, impl="native"),
    })  # fmt: skip
    print(json.dumps({"answers": {name: round(ms, 1) for name, ms in found.items()}}))


if __name__ == "__main__":
    main()
