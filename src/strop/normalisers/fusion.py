"""What a fused kernel must know of a normaliser, which each normaliser declares of itself (`Normaliser.fusion`).

    Dense          nothing less than a row's whole logits: only the implementations that hold whole rows can run it
    Threshold      weights = [(α − 1)·e − τ]_+^(1/(α − 1)), with τ such that they sum to 1, for an α of 2 or 1.5
    ConstantBeta   softmax(β·e), one number β for every row
    CountBeta      softmax(β·e), β a function of the number of visible keys: known before any logit is formed
    EntropyBeta    softmax(β·e), β a polynomial of the row's entropy, with its slope for a backward pass
    StatsBeta      softmax(β·e), β any function of the row's statistics: a first pass measures them

The last four are the temperature family. A declaration holds for the class that makes it. A subclass that changes the
arithmetic (`weights`, `weights_of`, `prepare_key`, `inverse_temperature`) and declares nothing falls back to the
slowest way that is certainly right: `Dense`, or `StatsBeta` where only β was changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor


class Dense(NamedTuple):
    """Only whole rows will do."""


class Threshold(NamedTuple):
    """α-entmax for an α whose threshold is found exactly: 2 is sparsemax, 1.5 is 1.5-entmax."""

    alpha: float


class ConstantBeta(NamedTuple):
    """One β for every row."""

    beta: float


class CountBeta(NamedTuple):
    """β is `inverse_temperature` of statistics of which only n_keys is known."""


class StatsBeta(NamedTuple):
    """β is `inverse_temperature` of a row's measured statistics."""


class EntropyBeta(NamedTuple):
    """β(H) = max(P(H), 1) for H > threshold, else 1; from `hold_at` on P keeps its value there.

    `coefficients` of P stand highest power first. `detached` says that no gradient flows through β.
    """

    coefficients: tuple[float, ...]
    threshold: float
    hold_at: float
    detached: bool = False

    def beta(self, entropy: Tensor) -> Tensor:
        """β of every row; a NaN entropy gives a NaN β, never a silent 1."""
        grown = evaluate_polynomial(self.coefficients, entropy.clamp(max=self.hold_at)).clamp(min=1.0)
        beta = torch.where(entropy <= self.threshold, 1.0, grown)
        return beta.detach() if self.detached else beta

    def slope(self, entropy: Tensor) -> Tensor:
        """dβ/dH of every row: P′(H) where P(H) decides, 0 elsewhere."""
        grows = (evaluate_polynomial(self.coefficients, entropy) > 1.0) & (entropy > self.threshold)
        flat = torch.zeros_like(entropy)
        if self.detached:
            return flat
        steep = evaluate_polynomial(differentiate_polynomial(self.coefficients), entropy)
        return torch.where(grows & (entropy < self.hold_at), steep, flat)


Fusion: TypeAlias = Dense | Threshold | ConstantBeta | CountBeta | EntropyBeta | StatsBeta

TEMPERATURES = (ConstantBeta, CountBeta, EntropyBeta, StatsBeta)
"""The declarations of the temperature family."""


def evaluate_polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """P(x), coefficients highest power first."""
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def differentiate_polynomial(coefficients: Sequence[float]) -> tuple[float, ...]:
    """Coefficients of P′, highest power first; (0,) for a constant."""
    degree = len(coefficients) - 1
    return tuple(c * (degree - i) for i, c in enumerate(coefficients[:-1])) or (0.0,)
