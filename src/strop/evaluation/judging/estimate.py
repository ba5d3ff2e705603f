"""How long a judgement will take, from a moment's trial of the model: reading prompts, then writing answers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from strop.evaluation.judging.bench import BenchCell
from strop.evaluation.judging.harness import batch_of
from strop.evaluation.timing import time_reading, time_tokens

STEPS = 60
"""Tokens of a typical answer: 30 to 128 are allowed, and many end early."""


def estimate_seconds(model: nn.Module, cells: Sequence[BenchCell], documents: int) -> float | None:
    """Return seconds: writing a token takes as long as reading one. None: no length."""
    if any(cell.tokens is None for cell in cells):
        return None
    reading = time_reading(model)
    step = {batch: time_tokens(model, batch, 1) for batch in map(batch_of, cells)}
    total = 0.0
    for cell in cells:
        assert cell.tokens is not None
        total += documents * (reading.read(cell.tokens) + STEPS * step[batch_of(cell)] / batch_of(cell))
    return total
