"""What does an edge cost in generation? Prefill and decoding with it, beside the untouched model, in one run.

    python benchmarks/decoding.py        # SmolLM2, 1,024 tokens of context, one thread

Each round reads the context and writes tokens with the model as it is and with the edge on it, in turn; the ratio is
the median over rounds of one time divided by the other of the same round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from typing import Any

import torch

import strop
from strop.pretrained import load_model
from strop.pretrained.text import cut_lengths, default_text


@torch.no_grad()
def measure(model: Any, ids: torch.Tensor, tokens: int) -> tuple[float, float]:
    """Return the seconds that reading the context takes, and those of one more token."""
    began = time.perf_counter()
    read = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    prefill = time.perf_counter() - began
    cache, token = read.past_key_values, read.logits[:, -1:].argmax(-1)
    began = time.perf_counter()
    for _ in range(tokens):
        token = model(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)
    return prefill, (time.perf_counter() - began) / tokens


def main() -> None:
    """Print the seconds and their ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edge", default="examples/edges/smollm2-recall.safetensors")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model, tokeniser = load_model("smollm2")
    edge = strop.Edge.load(given.edge)
    ids = cut_lengths(tokeniser, default_text(), [given.context], 1)[given.context]
    seconds: dict[str, list[tuple[float, float]]] = {"untouched": [], "edge": []}
    for _ in range(given.rounds):
        for name, block in (("untouched", nullcontext()), ("edge", strop.sharpened(model, edge))):
            with block:
                seconds[name].append(measure(model, ids, given.tokens))
    found: dict[str, float] = {}
    for i, phase in enumerate(("prefill", "decode")):
        before, after = ([one[i] for one in seconds[name]] for name in ("untouched", "edge"))
        found[f"{phase} untouched, ms"] = 1e3 * statistics.median(before)
        found[f"{phase} edge, ms"] = 1e3 * statistics.median(after)
        found[f"{phase} ratio"] = statistics.median(b / a for a, b in zip(before, after, strict=True))
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=1))


if __name__ == "__main__":
    main()
