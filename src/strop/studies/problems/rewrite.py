"""Copy, reverse and sort: n symbols, a separator, and the same symbols in the order asked for.

    size 4        s3 s1 s3 s2   |  ...            tokens 0 … symbols − 1, then the separator |
    copy          s3 s1 s3 s2   |  s3 s1 s3       target   .  .  .  .  s3 s1 s3 s2
    reverse       s3 s1 s3 s2   |  s2 s3 s1       target   .  .  .  .  s2 s3 s1 s3
    sort          s3 s1 s3 s2   |  s1 s2 s3       target   .  .  .  .  s1 s2 s3 s3

Symbols are drawn with repetition. The answer is shown as it is asked for (teacher forced), but for its last symbol,
which nothing follows: 2n tokens. One symbol of n matters for each that is asked.

Chance: 1 in `symbols` for copy and reverse. In a sorted answer the last symbol shown often comes again, so that saying
it once more is right in 1 − (number of distinct symbols)/n of the places, which grows with n; `chance` says so. From n
about `symbols` on, sort asks for counting as much as for looking up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop._checks import require
from strop.errors import UnsupportedError
from strop.studies.problems.task import IGNORE, Problems, SequenceTask


class Rewrite(SequenceTask):
    """n symbols and what is asked of them."""

    test_sizes = (16, 32, 64, 128, 256, 512)
    symbols: int

    def __post_init__(self) -> None:
        require(self.symbols >= 1, "symbols must be at least 1", self.symbols)

    def rewrite(self, symbols: Tensor) -> Tensor:
        """Return the answer to symbols [count, n]."""
        raise UnsupportedError(f"{type(self).__name__} must define rewrite(symbols).")

    @property
    def vocabulary(self) -> int:
        """Symbols and the separator."""
        return self.symbols + 1

    def length(self, size: int) -> int:
        """Symbols, separator and all of the answer but its last symbol."""
        return 2 * size

    def chance(self, size: int) -> float:
        """Every symbol is as likely."""
        return 1.0 / self.symbols

    def _draw(self, count: int, size: int, generator: Generator, split: str) -> Problems:
        symbols = torch.randint(self.symbols, (count, size), generator=generator)
        separator = torch.full((count, 1), self.symbols)
        answer = self.rewrite(symbols)
        target = torch.cat([torch.full_like(symbols, IGNORE), answer], 1)
        return Problems(torch.cat([symbols, separator, answer[:, :-1]], 1), None, target, size)

    def solve(self, problems: Problems) -> Tensor:
        """Rewrite what stands before the separator."""
        symbols = problems.inputs[:, : problems.size]
        return torch.cat([torch.full_like(symbols, IGNORE), self.rewrite(symbols)], 1)


@dataclass(frozen=True)
class Copy(Rewrite):
    """The symbols as they came."""

    name = "copy"
    symbols: int = 32

    def rewrite(self, symbols: Tensor) -> Tensor:
        """The same."""
        return symbols


@dataclass(frozen=True)
class Reverse(Rewrite):
    """The symbols from last to first."""

    name = "reverse"
    symbols: int = 32

    def rewrite(self, symbols: Tensor) -> Tensor:
        """Turned round."""
        return symbols.flip(1)


@dataclass(frozen=True)
class Sort(Rewrite):
    """The symbols in rising order."""

    name = "sort"
    symbols: int = 64

    def rewrite(self, symbols: Tensor) -> Tensor:
        """In order."""
        return symbols.sort(dim=1).values

    def chance(self, size: int) -> float:
        """Say the last symbol again, or any symbol, whichever is right more often."""
        distinct = self.symbols * (1.0 - (1.0 - 1.0 / self.symbols) ** size)
        return max(1.0 / self.symbols, 1.0 - distinct / size)
