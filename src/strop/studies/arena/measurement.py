"""A small model on a task at one size: how often it is right, how sharp it looks, how long it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator

from strop.studies.networks.decoder import Decoder
from strop.studies.networks.set_reader import SetReader
from strop.studies.problems.task import IGNORE, Problems, Task

ITEMS_A_PASS = 2**14
"""Items or tokens in one forward pass."""
SHARPNESS_PROBLEMS = 8
"""Problems whose attention weights are looked at."""


@dataclass(frozen=True)
class SizeResult:
    """Means over answers: accuracy and loss; means over rows, heads and layers: top weight and entropy (nats)."""

    problems: int
    answers: int
    accuracy: float
    loss: float
    seconds: float
    top_weight: float
    entropy: float | None


@torch.no_grad()
def measure_size(
    model: SetReader | Decoder, task: Task, size: int, count: int, generator: Generator, split: str = "train"
) -> SizeResult:
    """Ask `count` problems of one size; `seconds` is the processor time of the forward passes of one problem."""
    right = answers = 0
    loss = seconds = 0.0
    first: Problems | None = None
    for problems in _draw_batches(task, size, count, generator, split):
        first = first or problems
        start = time.process_time()
        logits, target = model(*problems.arguments), problems.answers
        seconds += time.process_time() - start
        right += int((logits.argmax(-1) == target).sum())
        answers += len(target)
        loss += float(F.cross_entropy(logits.double(), target, reduction="sum"))
    assert first is not None
    top, entropy = measure_sharpness(model, first)
    return SizeResult(count, answers, right / answers, loss / answers, seconds / count, top, entropy)


@torch.no_grad()
def measure_sharpness(model: SetReader | Decoder, problems: Problems) -> tuple[float, float | None]:
    """Mean top weight and entropy of the rows that answer, over heads and layers, of a few problems."""
    few = problems.first(SHARPNESS_PROBLEMS)
    if isinstance(model, SetReader):
        layers, asked = [model.attention_stats(*few.arguments)], torch.ones(len(few.target), dtype=torch.bool)
    else:
        layers = model.attention_stats(few.inputs)
        asked = (few.target != IGNORE)[:, None].expand(layers[0].top_weight.shape)
    top = torch.stack([layer.top_weight[asked] for layer in layers]).double().mean()
    entropy = float(torch.stack([layer.entropy[asked] for layer in layers]).double().mean())
    return float(top), None if math.isnan(entropy) else entropy


def _draw_batches(task: Task, size: int, count: int, generator: Generator, split: str) -> Iterator[Problems]:
    at_once = max(1, ITEMS_A_PASS // task.length(size))
    for start in range(0, count, at_once):
        yield task.sample(min(at_once, count - start), size, generator, split)
