"""Parts that set an inverse temperature β for a row, as a function of what it sees. All start at β = 1.

    constant     β = exp(a)                              one number a head; can be baked into the query weights
    layer        β = exp(a)                              one number a layer; can be baked where heads share a norm
    log-n        β = max(0, 1 + a + b·log(n/256))        SSMax (arXiv 2501.19399) about a length of 256 keys
    power-n      β = exp(a)·(n/256)^b                    a power of the length: log β is linear in log n
    polynomial   β = max(0, 1 + Σ c_k·(H/4)^k)           degree 3 in the entropy H (arXiv 2410.01104), per head
    hold         β = 1 + b·log(max(n, n₀)/n₀)            softmax up to n₀ keys; b from statistics

A head whose numbers are all 0 is left as it was, exactly.
"""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from strop._types import Rows
from strop.edges.fold import Fold
from strop.edges.part import Part
from strop.normalisers import Temperature
from strop.sharpness import RowStats

MIDDLE = 256.0
"""Keys at which the growth in n of log-n and power-n begins."""

NATS = 4.0
"""Unit of entropy in the polynomial, so that its terms are of one size."""


def log_length(stats: RowStats) -> Rows:
    """log(n/256), n the keys that a row may see."""
    return (stats.n_keys.clamp(min=1).to(stats.mean.dtype) / MIDDLE).log()


class TemperaturePart(Temperature, Part):
    """A temperature with `numbers` [heads, count], zero where a head is left alone."""

    fields = ("numbers",)
    count: ClassVar[int] = 1

    def __init__(self, numbers: Tensor) -> None:
        super().__init__()
        self.heads: int | None = len(numbers)
        self.numbers = nn.Parameter(numbers.float().clone())

    @classmethod
    def start(cls, module: nn.Module, heads: int, rank: int) -> Self:
        """Zeros."""
        return cls(torch.zeros(heads, cls.count))

    def number(self, index: int, like: Tensor) -> Tensor:
        """One number of every head, [heads, 1], which broadcasts over rows [*batch, heads, n_q]."""
        return self.numbers[:, index, None].to(like)

    def fold(self) -> Fold | None:
        """β of every head, where it is a constant."""
        return Fold(query=self.at(1, 0.0)[:, None]) if self.uses == "constant" else None

    def describe(self, n_keys: float, entropy: float) -> dict[str, Tensor]:
        """β."""
        return {"beta": self.at(n_keys, entropy)}

    def at(self, n_keys: float, entropy: float) -> Tensor:
        """β of every head [heads] for a row that sees `n_keys` with this entropy."""
        one = torch.ones(len(self.numbers), 1)
        stats = RowStats(one.mul(n_keys).long(), one * 0, one * 0, one * entropy, one * 0)
        return self.inverse_temperature(stats).detach()[:, 0]


class Constant(TemperaturePart):
    """One β per head."""

    term = "constant"
    uses = "constant"

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """exp(a)."""
        return self.numbers.to(stats.mean).exp()


class PerLayer(Constant):
    """One β for all heads of a layer."""

    term = "layer"

    def __init__(self, numbers: Tensor) -> None:
        super().__init__(numbers)
        self.heads = None

    @classmethod
    def start(cls, module: nn.Module, heads: int, rank: int) -> Self:
        """One zero."""
        return cls(torch.zeros(1, 1))


class LogLength(TemperaturePart):
    """β that grows or falls with the logarithm of the visible keys."""

    term = "log-n"
    uses = "n_keys"
    count = 2

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + a + b·log(n/256), at least 0."""
        return (1.0 + self.number(0, stats.mean) + self.number(1, stats.mean) * log_length(stats)).clamp(min=0.0)


class PowerLength(TemperaturePart):
    """β that grows or falls as a power of the visible keys."""

    term = "power-n"
    uses = "n_keys"
    count = 2

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """exp(a + b·log(n/256))."""
        return (self.number(0, stats.mean) + self.number(1, stats.mean) * log_length(stats)).exp()


class Polynomial(TemperaturePart):
    """β as a polynomial of the row's entropy, lowest power first."""

    term = "polynomial"
    uses = "entropy"
    count = 4

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + Σ c_k (H/4)^k, at least 0."""
        entropy = stats.entropy / NATS
        total = torch.zeros_like(entropy)
        for k in reversed(range(self.count)):
            total = total * entropy + self.number(k, stats.mean)
        return (1.0 + total).clamp(min=0.0)


class Hold(TemperaturePart):
    """Softmax up to `number 1` = log n₀ keys, then growing as `number 0` says."""

    term = "hold"
    uses = "n_keys"
    count = 2

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + b·log(max(n, n₀)/n₀)."""
        beyond = stats.n_keys.clamp(min=1).to(stats.mean.dtype).log() - self.number(1, stats.mean)
        return 1.0 + self.number(0, stats.mean) * beyond.clamp(min=0.0)
