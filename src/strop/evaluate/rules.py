"""Rules for the inverse temperature at inference, by the names in tables. A rule sees a row's logits, and no target.

    softmax            1
    adaptive           the published polynomial of the entropy
    adaptive, held     the same, held at its peak instead of falling back to 1
    refit              the paper's recipe on our own in-distribution data (`strop.evaluate.refit`)
    train entropy      whatever brings the row's entropy down to the mean entropy seen in training
    log n              log n / log 16                       entropy-invariant scaling, `strop.normalisers.LogN`
    1 + log            1 + log(n / 16)
    power              (n / 16)^γ                           γ fitted on sizes up to 64; 1 up to 16 items
    calibrated         the larger of adaptive and power     it neither saturates nor switches off

`hard` (the top logit takes all) is β = ∞ and handled by the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.evaluate.oracle import holding_entropy
from strop.normalisers import AdaptiveTemperature, LogN, Softmax
from strop.normalisers.base import Temperature
from strop.sharpness import RowStats

Rule = Callable[[Tensor, RowStats], Tensor]
TRAINED_SIZE = 16


@dataclass(frozen=True)
class Fitted:
    """What the rules take from data: all of it in-distribution, or of the validation sizes that `gamma` names."""

    refit: tuple[float, ...] = ()  # polynomial in H, highest power first
    train_entropy: float | None = None
    gamma: float | None = None


def rules(fitted: Fitted) -> dict[str, Rule]:
    """Every rule that `fitted` has the numbers for, in the order of the table."""
    out: dict[str, Rule] = {
        "softmax": _of(Softmax()),
        "adaptive": _of(AdaptiveTemperature()),
        "adaptive, held": _of(AdaptiveTemperature(beyond_fit="hold")),
    }
    if fitted.refit:
        out["refit"] = _of(AdaptiveTemperature(fitted.refit, threshold=0.0))
    if fitted.train_entropy is not None:
        target = fitted.train_entropy
        out["train entropy"] = lambda logits, stats: holding_entropy(logits, target)
    out["log n"] = _of(LogN(TRAINED_SIZE))
    out["1 + log"] = lambda logits, stats: 1.0 + _growth(stats).log()
    if fitted.gamma is not None:
        gamma = fitted.gamma
        out["power"] = lambda logits, stats: _growth(stats).pow(gamma)
        out["calibrated"] = lambda logits, stats: torch.maximum(
            out["adaptive"](logits, stats), out["power"](logits, stats)
        )
    return out


def constant(beta: float) -> Rule:
    """The same β for every row."""
    return lambda logits, stats: logits.new_full(logits.shape[:-1], beta)


def _of(normaliser: Temperature) -> Rule:
    return lambda logits, stats: normaliser.inverse_temperature(stats)


def _growth(stats: RowStats) -> Tensor:
    """How many times larger than the largest training set the row is; 1 for smaller ones."""
    return (stats.n_keys.to(stats.mean.dtype) / TRAINED_SIZE).clamp(min=1.0)
