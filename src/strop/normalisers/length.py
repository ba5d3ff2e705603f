"""Inverse temperatures that are a fixed function of n, the keys that the row may see.

    LogN                β = log n / log n_train              the entropy of random logits stops growing with n
    RelativeLogN        β = 1 + slope·log(n / n_train)       1 up to n_train: what was trained is left as it is
    Llama4Temperature   β = 1 + 0.1·log(⌊n / 8192⌋ + 1)      Llama 4's global layers; causally, n is position + 1
    YaRNTemperature     β = (0.1·ln(n / n_train) + 1)²       arXiv 2309.00071, on q and k alike; 1 up to n_train

None of them learns anything.
"""

from __future__ import annotations

import math

import torch

from strop._checks import require_number
from strop._types import Rows
from strop.normalisers.base import Temperature, log_n_keys
from strop.sharpness import RowStats


class LogN(Temperature):
    """Entropy-invariant scaling by the logarithm of the length."""

    uses = "n_keys"

    def __init__(self, trained_length: float) -> None:
        super().__init__()
        self.trained_length = require_number("trained_length", trained_length, above=1)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """log n / log n_train."""
        return log_n_keys(stats.n_keys, stats.mean.dtype) / math.log(self.trained_length)


class RelativeLogN(Temperature):
    """Logarithmic sharpening of the rows that are longer than those of training, and of no other."""

    uses = "n_keys"

    def __init__(self, trained_length: float, slope: float = 1.0) -> None:
        super().__init__()
        self.trained_length = require_number("trained_length", trained_length, above=0)
        self.slope = require_number("slope", slope)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + slope·log(n / n_train), 1 up to n_train."""
        return 1.0 + self.slope * (stats.n_keys.to(stats.mean.dtype) / self.trained_length).clamp(min=1.0).log()


class Llama4Temperature(Temperature):
    """Stepwise logarithmic sharpening past every `floor` keys."""

    uses = "n_keys"

    def __init__(self, floor: float = 8192, slope: float = 0.1) -> None:
        super().__init__()
        self.floor = require_number("floor", floor, above=0)
        self.slope = require_number("slope", slope)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + slope·log(⌊n / floor⌋ + 1)."""
        steps = (stats.n_keys.to(stats.mean.dtype) / self.floor).floor()
        return 1.0 + self.slope * torch.log1p(steps)


class YaRNTemperature(Temperature):
    """Attention temperature of YaRN for the given `length`, or where that is None for each row's own n."""

    uses = "n_keys"

    def __init__(self, trained_length: float, length: float | None = None, slope: float = 0.1) -> None:
        super().__init__()
        self.trained_length = require_number("trained_length", trained_length, above=0)
        self.length = None if length is None else require_number("length", length, above=0)
        self.slope = require_number("slope", slope)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """(slope·ln(n / n_train) + 1)², at least 1."""
        n = stats.n_keys.to(stats.mean.dtype) if self.length is None else stats.mean.new_full((), self.length)
        return (self.slope * (n / self.trained_length).clamp(min=1.0).log() + 1.0).square()
