"""How long a model takes to read, by a moment's trial: n tokens take a·n + b·n²; one more after them, a + 2·b·n."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from strop.patching.placement import device_of
from strop.pretrained.load import count_positions
from strop.tasks.answers import Encoded

TRIALS = 256, 1024

WORTH_SAYING = 60
"""Seconds from which a time is told before it begins."""


class ReadingTime(NamedTuple):
    """a and b, in seconds."""

    flat: float
    slope: float

    def read(self, tokens: int) -> float:
        """Return the seconds of reading a text."""
        return self.flat * tokens + self.slope * tokens**2

    def answer(self, passage: Encoded) -> float:
        """Return the seconds of reading a passage and its questions."""
        context = passage.context.shape[1]
        return self.read(context) + passage.ids.numel() * (self.flat + 2 * self.slope * context)


def time_reading(model: nn.Module) -> ReadingTime:
    """Try a short text and a longer one."""
    most = count_positions(model) or TRIALS[1]
    short, long = (min(n, most) for n in TRIALS)
    first, second = time_tokens(model, 1, short), time_tokens(model, 1, long)
    slope = max(0.0, second / long - first / short) / max(1, long - short)
    return ReadingTime(max(0.0, first / short - slope * short), slope)


@torch.no_grad()
def time_tokens(model: nn.Module, rows: int, tokens: int) -> float:
    """Return the seconds of one pass."""
    ids = torch.zeros(rows, tokens, dtype=torch.long, device=device_of(model))
    times = []
    for _ in range(2):  # the first is slower than those that follow
        start = time.perf_counter()
        model(input_ids=ids, use_cache=True, logits_to_keep=1)
        times.append(time.perf_counter() - start)
    return min(times)


def estimate_answers(model: nn.Module, passages: Sequence[Encoded]) -> float:
    """Return the seconds of answering all questions of some passages; 0 where a trial would take as long."""
    tokens = sum(passage.context.numel() + passage.ids.numel() for passage in passages)
    if tokens < 20 * sum(TRIALS):
        return 0.0
    reading = time_reading(model)
    return sum(reading.answer(passage) for passage in passages)
