"""How long a judgement will take, from a moment's trial of the model: reading prompts, then writing answers."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import nn

from strop.evaluation.judging.bench import BenchCell
from strop.evaluation.judging.harness import batch_of
from strop.patching.placement import device_of
from strop.pretrained.load import count_positions

TRIALS = 256, 1024
STEPS = 60
"""Tokens of a typical answer: 30 to 128 are allowed, and many end early."""


@torch.no_grad()
def estimate_seconds(model: nn.Module, cells: Sequence[BenchCell], documents: int) -> float | None:
    """Return seconds: reading n tokens takes a·n + b·n², writing a token as long as reading one. None: no length."""
    if any(cell.tokens is None for cell in cells):
        return None
    most = count_positions(model) or TRIALS[1]
    short, long = (min(n, most) for n in TRIALS)
    first, second = _time(model, 1, short), _time(model, 1, long)
    slope = max(0.0, second / long - first / short) / max(1, long - short)
    flat = max(0.0, first / short - slope * short)
    step = {batch: _time(model, batch, 1) for batch in map(batch_of, cells)}
    total = 0.0
    for cell in cells:
        assert cell.tokens is not None
        reading = flat * cell.tokens + slope * cell.tokens**2
        total += documents * (reading + STEPS * step[batch_of(cell)] / batch_of(cell))
    return total


def _time(model: nn.Module, rows: int, tokens: int) -> float:
    ids = torch.zeros(rows, tokens, dtype=torch.long, device=device_of(model))
    times = []
    for _ in range(2):  # the first is slower than those that follow
        start = time.perf_counter()
        model(input_ids=ids, use_cache=True, logits_to_keep=1)
        times.append(time.perf_counter() - start)
    return min(times)
