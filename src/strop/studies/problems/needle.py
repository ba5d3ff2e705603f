"""Needle: the class of the one item whose key is that of the query, among n − 1 others.

    key       + - - +   + + - +   - - + +   ...      16 signs, times 1/4, so that a key has length 1
    class           4         7         0
    query     the second key, each element off by U(−0.1, 0.1)        target 7

The other keys differ from the needle's in at least 3 signs: each is the needle's key with the signs of a mask turned,
and the masks are drawn uniformly from all 65,399 of 16 bits that have at least 3 set. They may repeat. A key at d signs
has a product with the query that is smaller than the needle's by at least d/8 − d/20 > 0, so that the needle is always
the nearest, whatever the noise. An item is [key | onehot(class)]. One item matters of n. Chance: 1 in 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Generator, Tensor

from strop._checks import require
from strop.studies.problems.task import Problems, SetTask

SIGNS = 16
NEAREST = 3
NOISE = 0.1


@dataclass(frozen=True)
class Needle(SetTask):
    """One key among n, given with noise."""

    name = "needle"
    classes: int = 10
    query_features = SIGNS

    def __post_init__(self) -> None:
        require(self.classes >= 1, "classes must be at least 1", self.classes)

    @property
    def features(self) -> int:
        """A key and one column per class."""
        return SIGNS + self.classes

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        place = torch.randint(size, (count, 1), generator=generator)
        needle = torch.randint(2, (count, 1, SIGNS), generator=generator) * 0.5 - 0.25
        drawn = torch.randint(len(_masks()), (count * size,), generator=generator)
        turn = _masks().index_select(0, drawn).view(count, size, SIGNS)
        turn.scatter_(1, place[..., None].expand(-1, -1, SIGNS), 1.0)
        classes = torch.randint(self.classes, (count, size), generator=generator)
        items = torch.zeros(count, size, self.features)
        items[..., :SIGNS] = turn.mul_(needle)
        items.scatter_(2, SIGNS + classes[..., None], 1.0)
        noise = (2 * torch.rand(count, SIGNS, generator=generator) - 1) * NOISE
        return Problems(items, needle[:, 0] + noise, classes.gather(1, place)[:, 0], size)

    def solve(self, problems: Problems) -> Tensor:
        """Find the key nearest to the query and read its class."""
        assert problems.query is not None
        nearness = problems.inputs[..., :SIGNS] @ problems.query[..., None]
        best = nearness.argmax(1, keepdim=True).expand(-1, 1, self.classes)
        return problems.inputs[..., SIGNS:].gather(1, best)[:, 0].argmax(-1)


@cache
def _masks() -> Tensor:
    """All masks of 16 bits with at least 3 set, as the factors that turn signs: [65399, 16]."""
    bits = (torch.arange(2**SIGNS)[:, None] >> torch.arange(SIGNS)) & 1
    return 1.0 - 2.0 * bits[bits.sum(1) >= NEAREST]
