"""Multi-query associative recall: pairs of key and value, then some of the keys again; say the value of each.

    size 3      k7 v2  k1 v5  k4 v2   k1 v5  k7 v2  k4 v2         (k. and v. are tokens)
    target       .  .   .  .   .  .   v5  .  v2  .  v2  .         (. = not asked)

All `size` keys of a problem are distinct and drawn from the whole key vocabulary, in training as well, so that every
key is trained; values are independent. min(size, queries) keys are asked, none twice, in random order, each followed
by its value. One pair matters of `size`. Chance: 1 in `values`, 16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop._checks import require
from strop.studies.problems.task import IGNORE, Problems, SequenceTask, draw_orders


@dataclass(frozen=True)
class AssociativeRecall(SequenceTask):
    """The values of some of `size` keys; tokens 0 … keys − 1 are keys, the rest values."""

    name = "recall"
    test_sizes = (16, 32, 64, 128, 256, 512)
    keys: int = 512
    values: int = 16
    queries: int = 8

    def __post_init__(self) -> None:
        for name in ("keys", "values", "queries"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))

    @property
    def vocabulary(self) -> int:
        """Keys and values."""
        return self.keys + self.values

    @property
    def largest(self) -> int:
        """The keys of a problem are distinct."""
        return self.keys

    def length(self, size: int) -> int:
        """Two tokens for every pair and every query."""
        return 2 * (size + min(size, self.queries))

    def chance(self, size: int) -> float:
        """Every value is as likely."""
        return 1.0 / self.values

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        keys = draw_orders(count, self.keys, generator, first=size)
        values = self.keys + torch.randint(self.values, (count, size), generator=generator)
        asked = draw_orders(count, size, generator, first=self.queries)
        pairs = torch.stack([keys, values], -1)
        again = pairs.gather(1, asked[..., None].expand(-1, -1, 2))
        tokens = torch.cat([pairs, again], 1).flatten(1)
        target = torch.full_like(tokens, IGNORE)
        target[:, 2 * size :: 2] = again[..., 1]
        return Problems(tokens, None, target, size)

    def solve(self, problems: Problems) -> Tensor:
        """Look every asked key up among the pairs."""
        tokens, start = problems.inputs, 2 * problems.size
        keys, values, asked = tokens[:, 0:start:2], tokens[:, 1:start:2], tokens[:, start::2]
        place = (asked[..., None] == keys[:, None]).to(torch.uint8).argmax(-1)
        answers = torch.full_like(tokens, IGNORE)
        answers[:, start::2] = values.gather(1, place)
        return answers
