"""Flip-flop language modelling (arXiv 2306.00946): a read repeats the bit that was written last.

    size 5      w 1  i 0  i 1  r 1  r 1        w write, i ignore, r read, each followed by a bit
    target      . .  . .  . .  1 .  1 .        (. = not asked)

The first instruction is a write and the last a read; those between are i with probability p, w and r with (1 − p)/2
each. Training and the split "test" have p = 0.8; the split "sparse" has p = 0.98, so that the write lies far back among
many bits that must be ignored, and "dense" has p = 0.1, where many writes follow each other. One pair matters of
`size`. Chance: 1 in 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Generator, Tensor

from strop._checks import require
from strop.studies.problems.task import IGNORE, Problems, SequenceTask

ZERO, ONE, WRITE, READ, SKIP = range(5)
IGNORED = MappingProxyType({"sparse": 0.98, "dense": 0.1})


@dataclass(frozen=True)
class FlipFlop(SequenceTask):
    """`size` instructions with their bits; tokens 0, 1, w, r, i."""

    name = "flipflop"
    train_sizes = (4, 32)
    test_sizes = (32, 64, 128, 256, 512)
    splits = ("sparse", "dense")
    smallest = 2
    ignore: float = 0.8

    def __post_init__(self) -> None:
        require(0.0 <= self.ignore <= 1.0, "ignore must lie in [0, 1]", self.ignore)

    @property
    def vocabulary(self) -> int:
        """Two bits and three instructions."""
        return 5

    def length(self, size: int) -> int:
        """An instruction and its bit."""
        return 2 * size

    def chance(self, size: int) -> float:
        """Both bits are as likely."""
        return 0.5

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        ignore = IGNORED.get(split, self.ignore)
        draw = torch.rand(count, size, generator=generator)
        instructions = torch.full((count, size), SKIP).masked_fill_(draw < 1 - ignore, WRITE)
        instructions[draw < (1 - ignore) / 2] = READ
        instructions[:, 0], instructions[:, -1] = WRITE, READ
        bits = torch.randint(2, (count, size), generator=generator)
        written = (torch.arange(size) * (instructions == WRITE)).cummax(1).values
        bits = torch.where(instructions == READ, bits.gather(1, written), bits)
        target = torch.full((count, size, 2), IGNORE)
        target[..., 0] = torch.where(instructions == READ, bits, IGNORE)
        return Problems(torch.stack([instructions, bits], -1).flatten(1), None, target.flatten(1), size)

    def solve(self, problems: Problems) -> Tensor:
        """Walk along the instructions with one bit of memory."""
        answers = torch.full_like(problems.inputs, IGNORE)
        memory = torch.zeros_like(problems.inputs[:, 0])
        for place in range(0, problems.inputs.shape[1], 2):
            instruction = problems.inputs[:, place]
            memory = torch.where(instruction == WRITE, problems.inputs[:, place + 1], memory)
            answers[:, place] = torch.where(instruction == READ, memory, IGNORE)
        return answers
