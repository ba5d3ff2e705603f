"""Where does a model begin to fail? Sizes are doubled until it does, or until the context ends.

A size fails when fewer than FAILS of the answers are exact. Prompts are of one split and of its phrasings: where a
calibration looks, the test is never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from strop.errors import ArgumentError
from strop.tasks.answers import Encoded, Reader, answer_questions
from strop.tasks.catalogue import find_task, generator_of
from strop.tasks.passages import Passage, sample
from strop.tasks.prose import Split

FIRST = 4
"""The smallest size that is tried."""

FAILS = 0.95
"""Share of exact answers below which a model fails."""

QUESTIONS = 8
"""Questions of a passage."""


@dataclass(frozen=True)
class FailingSize:
    """Where a model fails: `size`, or None where it does not; `tried` is the share of exact answers by size.

    Examples:
        >>> FailingSize(None, {4: 1.0, 8: 0.97}).largest
        8
    """

    size: int | None
    tried: dict[int, float]

    @property
    def largest(self) -> int:
        """The largest size that was tried."""
        return max(self.tried)


def find_failure(
    model: nn.Module, reader: Reader, task: str, phrasings: Sequence[str], split: Split, seed: int = 0, *,
    longest: int = 2048, prompts: int = 32, told: Callable[[int], None] = lambda size: None,
) -> FailingSize:  # fmt: skip
    """Ask `prompts` questions at each size, within `longest` tokens; `told` hears of every size before it is asked."""
    tried: dict[int, float] = {}
    size = FIRST
    while (passages := draw_fitting(reader, task, size, phrasings, split, seed, prompts, longest)) is not None:
        told(size)
        tried[size] = measure_accuracy(model, passages)
        if tried[size] < FAILS:
            return FailingSize(size, tried)
        size *= 2
    return FailingSize(None, tried)


@torch.no_grad()
def measure_accuracy(model: nn.Module, passages: Sequence[Encoded]) -> float:
    """Return the share of exact answers."""
    exact = [answer.exact for passage in passages for answer in answer_questions(model, passage)]
    return sum(exact) / len(exact)


def draw_prompts(
    task: str, size: int, phrasings: Sequence[str], split: Split, seed: int, prompts: int
) -> list[Passage] | None:
    """Return passages with about so many questions in all, the phrasings in turn; None where the size is too large."""
    found, draw = find_task(task), generator_of(split, seed)
    try:
        made = sample(found, len(phrasings), size, phrasings, draw, QUESTIONS)
        more = -(-prompts // len(made[0].questions)) - len(made)
        return made + (sample(found, more, size, phrasings, draw, QUESTIONS) if more > 0 else [])
    except ArgumentError:  # the task has no passages of this size
        return None


def draw_fitting(
    reader: Reader, task: str, size: int, phrasings: Sequence[str], split: Split, seed: int, prompts: int, longest: int
) -> list[Encoded] | None:
    """Return the tokens of such passages; None where they do not fit into `longest` tokens, but for the first size."""
    drawn = draw_prompts(task, size, phrasings, split, seed, prompts)
    if drawn is None:
        return None
    encoded = [reader.encode(passage) for passage in drawn]
    fits = all(one.context.shape[1] + one.ids.shape[1] <= longest for one in encoded)
    return encoded if fits or size == FIRST else None
