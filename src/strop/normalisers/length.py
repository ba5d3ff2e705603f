"""Inverse temperatures that are a fixed function of n, the number of keys that a row may see.

None of them learns anything.
"""

from __future__ import annotations

import math

import torch

from strop._checks import require, require_number
from strop._types import Rows
from strop.normalisers.base import Temperature, log_n_keys
from strop.sharpness import RowStats


class LogN(Temperature):
    """Sharpen with the logarithm of the number of keys, so that the entropy of random logits stops growing with n.

        weights = softmax(β·e),     β = log n / log n_train

    n is the number of keys that the row may see. It learns nothing. Use it on models that were trained with it: rows
    shorter than n_train are softened (β < 1). For a model trained with softmax take `RelativeLogN`, which leaves those
    rows alone.

    Args:
        trained_length: n_train, the number of keys at which β is 1.

    Examples:
        >>> import torch
        >>> from strop import RowStats
        >>> from strop.normalisers import LogN
        >>> lengths = RowStats.of_counts(torch.tensor([128, 512, 8192]), torch.float32)
        >>> LogN(trained_length=512).inverse_temperature(lengths)
        tensor([0.7778, 1.0000, 1.4444])
    """

    name = "log_n"
    uses = "n_keys"

    def __init__(self, trained_length: float) -> None:
        super().__init__()
        self.trained_length = require_number("trained_length", trained_length, above=1)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """log n / log n_train."""
        return log_n_keys(stats.n_keys, stats.mean.dtype) / math.log(self.trained_length)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"trained_length={self.trained_length:g}"


class RelativeLogN(Temperature):
    """Sharpen rows longer than those of training by the logarithm of how much longer they are, and no others.

        weights = softmax(β·e),     β = 1 + slope·log(n / n_train) for n > n_train,     1 up to n_train

    n is the number of keys that the row may see. A rule of our own; it learns nothing. Use it on a trained model that
    must stay as it is at the lengths it knows. One slope for all heads is a guess; `strop.calibrate` finds out what
    each head needs.

    Args:
        trained_length: n_train, the largest number of keys that is left as it is.
        slope: How fast β grows.

    Examples:
        >>> import torch
        >>> from strop import RowStats
        >>> from strop.normalisers import RelativeLogN
        >>> lengths = RowStats.of_counts(torch.tensor([128, 512, 8192]), torch.float32)
        >>> RelativeLogN(trained_length=512).inverse_temperature(lengths)
        tensor([1.0000, 1.0000, 3.7726])
    """

    name = "relative_log_n"
    uses = "n_keys"

    def __init__(self, trained_length: float, slope: float = 1.0) -> None:
        super().__init__()
        self.trained_length = require_number("trained_length", trained_length, above=0)
        self.slope = require_number("slope", slope)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + slope·log(n / n_train), 1 up to n_train."""
        return 1.0 + self.slope * (stats.n_keys.to(stats.mean.dtype) / self.trained_length).clamp(min=1.0).log()

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"trained_length={self.trained_length:g}, slope={self.slope:g}"


class Llama4Temperature(Temperature):
    """Sharpen by steps, one for every `floor` keys, as the global layers of Llama 4 do.

        weights = softmax(β·e),     β = 1 + slope·log(⌊n / floor⌋ + 1)

    n is the number of keys that the row may see; causally, that is position + 1. It learns nothing. β is 1 below
    `floor` keys, so shorter inputs do not change. Use it on models that were trained with it.

    Args:
        floor: Number of keys of one step.
        slope: How fast β grows.

    Examples:
        >>> import torch
        >>> from strop import RowStats
        >>> from strop.normalisers import Llama4Temperature
        >>> lengths = RowStats.of_counts(torch.tensor([8191, 8192, 131072]), torch.float32)
        >>> Llama4Temperature().inverse_temperature(lengths)
        tensor([1.0000, 1.0693, 1.2833])
    """

    name = "llama4"
    uses = "n_keys"

    def __init__(self, floor: float = 8192, slope: float = 0.1) -> None:
        super().__init__()
        self.floor = require_number("floor", floor, above=0)
        self.slope = require_number("slope", slope)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """1 + slope·log(⌊n / floor⌋ + 1)."""
        steps = (stats.n_keys.to(stats.mean.dtype) / self.floor).floor()
        return 1.0 + self.slope * torch.log1p(steps)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"floor={self.floor:g}, slope={self.slope:g}"


class YaRNTemperature(Temperature):
    """The attention temperature of YaRN, for rows longer than those of training.

        weights = softmax(β·e),     β = (slope·ln(n / n_train) + 1)² for n > n_train,     1 up to n_train

    From arXiv 2309.00071, which scales q and k alike, hence the square. It learns nothing. n is the number of keys that
    the row may see, or `length` for all rows. YaRN also changes the rotary frequencies, which is the model's business.
    Do not add it to a model whose own YaRN already scales q and k.

    Args:
        trained_length: n_train, the largest number of keys that is left as it is.
        length: n for all rows, as YaRN has it. None: each row's own number of keys.
        slope: How fast β grows.

    Examples:
        >>> import torch
        >>> from strop import RowStats
        >>> from strop.normalisers import YaRNTemperature
        >>> lengths = RowStats.of_counts(torch.tensor([2048, 4096, 65536]), torch.float32)
        >>> YaRNTemperature(trained_length=4096).inverse_temperature(lengths)
        tensor([1.0000, 1.0000, 1.6314])
    """

    name = "yarn"
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

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"trained_length={self.trained_length:g}, length={self.length}, slope={self.slope:g}"


class InfoScale(Temperature):
    """Sharpen rows longer than those of training so that the entropy of random queries and keys stays the same.

        weights = softmax(β·e),     β = √((1 − n^(−2/d)) / (1 − n_train^(−2/d))) for n > n_train,     1 up to n_train

    From arXiv 2501.08570. n is the number of keys that the row may see, d the length of a query. It learns nothing. One
    way to read it: of n random directions in d dimensions the nearest lies at an angle whose sine is about n^(−1/d),
    and β is the ratio of the cosines. For large d it is √(log n / log n_train). The authors' code leaves shorter rows
    alone in T5, as here, and softens them in encoders. Where a layer has several heads it takes d of all of them
    together, which sharpens a little more.

    Args:
        trained_length: n_train, the largest number of keys that is left as it is.
        head_dim: d.

    Examples:
        >>> import torch
        >>> from strop import RowStats
        >>> from strop.normalisers import InfoScale
        >>> lengths = RowStats.of_counts(torch.tensor([128, 512, 8192]), torch.float32)
        >>> InfoScale(trained_length=512, head_dim=64).inverse_temperature(lengths)
        tensor([1.0000, 1.0000, 1.1771])
    """

    name = "infoscale"
    uses = "n_keys"

    def __init__(self, trained_length: float, head_dim: int) -> None:
        super().__init__()
        self.trained_length = require_number("trained_length", trained_length, above=1)
        require(head_dim >= 1, "head_dim must be at least 1", head_dim)
        self.head_dim = int(head_dim)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """√((1 − n^(−2/d)) / (1 − n_train^(−2/d))), at least 1."""
        power = -2.0 / self.head_dim
        grown = torch.expm1(power * log_n_keys(stats.n_keys, stats.mean.dtype))
        return (grown / math.expm1(power * math.log(self.trained_length))).clamp(min=1.0).sqrt()

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"trained_length={self.trained_length:g}, head_dim={self.head_dim}"
