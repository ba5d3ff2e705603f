"""What is learned for a head: an inverse temperature β as a function of what the row sees. All start at β = 1.

    constant     β = exp(a)                              one number; can be baked into the query weights
    log-n        β = max(0, 1 + a + b·log(n/256))        SSMax (arXiv 2501.19399) about a length of 256 keys
    polynomial   β = max(0, 1 + Σ c_k·(H/4)^k)           degree 3 in the entropy H (arXiv 2410.01104), per head
    hold         β = 1 + b·log(max(n, n₀)/n₀)            softmax up to n₀ keys; b from statistics (hold.py)
    none         β = 1                                   nothing: for an edge that scales outputs only

A head whose numbers are all 0 is left as it was, exactly.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from strop._checks import require_known
from strop._types import Rows
from strop.normalisers import Temperature
from strop.sharpness import RowStats

MIDDLE = 256.0
"""Keys at which the log-n form has β = 1 + a."""

NATS = 4.0
"""Unit of entropy in the polynomial, so that its terms are of one size."""


class Form(Temperature):
    """A temperature with `numbers` [heads, count], zero where a head is left alone."""

    count: ClassVar[int] = 1
    bakeable: ClassVar[bool] = False

    def __init__(self, heads: int, numbers: Tensor | None = None) -> None:
        super().__init__()
        self.heads: int = heads
        self.numbers = nn.Parameter(torch.zeros(heads, self.count) if numbers is None else numbers.float().clone())

    def number(self, index: int, like: Tensor) -> Tensor:
        """One number of every head, [heads, 1], which broadcasts over rows [*batch, heads, n_q]."""
        return self.numbers[:, index, None].to(like)

    def at(self, n_keys: float, entropy: float) -> Tensor:
        """β of every head [heads] for a row that sees `n_keys` with this entropy: for reports."""
        one = torch.ones(self.heads, 1)
        stats = RowStats(one.mul(n_keys).long(), one * 0, one * 0, one * entropy, one * 0)
        return self.inverse_temperature(stats).detach().expand(self.heads, 1)[:, 0]


class Constant(Form):
    """One β per head."""

    uses = "constant"
    bakeable = True

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """exp(a)."""
        return self.number(0, stats.mean).exp()


class LogLength(Form):
    """β that grows or falls with the logarithm of the visible keys."""

    uses = "n_keys"
    count = 2

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + a + b·log(n/256), at least 0."""
        length = (stats.n_keys.clamp(min=1).to(stats.mean.dtype) / MIDDLE).log()
        return (1.0 + self.number(0, stats.mean) + self.number(1, stats.mean) * length).clamp(min=0.0)


class Polynomial(Form):
    """β as a polynomial of the row's entropy, lowest power first."""

    uses = "entropy"
    count = 4

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + Σ c_k (H/4)^k, at least 0."""
        entropy = stats.entropy / NATS
        total = torch.zeros_like(entropy)
        for k in reversed(range(self.count)):
            total = total * entropy + self.number(k, stats.mean)
        return (1.0 + total).clamp(min=0.0)


class Hold(Form):
    """Softmax up to `number 1` = log n₀ keys, then growing as `number 0` says."""

    uses = "n_keys"
    count = 2

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + b·log(max(n, n₀)/n₀)."""
        beyond = stats.n_keys.clamp(min=1).to(stats.mean.dtype).log() - self.number(1, stats.mean)
        return 1.0 + self.number(0, stats.mean) * beyond.clamp(min=0.0)


class Untempered(Form):
    """β = 1 on every head."""

    uses = "constant"
    count = 0
    bakeable = True

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """One."""
        return stats.mean.new_ones(self.heads, 1)


FORMS: dict[str, type[Form]] = {
    "constant": Constant,
    "log-n": LogLength,
    "polynomial": Polynomial,
    "hold": Hold,
    "none": Untempered,
}


def find_form(name: str) -> type[Form]:
    """Return a form by name."""
    require_known("form", name, FORMS)
    return FORMS[name]
