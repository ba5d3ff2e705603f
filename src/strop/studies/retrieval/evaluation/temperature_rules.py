"""Rules for the inverse temperature at inference, by the names in tables. A rule sees a row's logits, and no target.

    softmax            1
    adaptive           the published polynomial of the entropy
    adaptive, held     the same, held at its peak instead of falling back to 1
    refit              the paper's recipe on our own in-distribution data (`fits.py`)
    train entropy      whatever brings the row's entropy down to the mean entropy seen in training
    log n              log n / log t                        entropy-invariant scaling, `strop.normalisers.LogN`
    1 + log            1 + log(n / t)
    power              (n / t)^γ                            γ fitted on sizes up to 4t; 1 up to t items
    calibrated         the larger of adaptive and power     it neither saturates nor switches off

t is the largest size in training. `hard` (the top logit takes all) is β = ∞ and handled by the evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from strop.normalisers import AdaptiveTemperature, LogN, Softmax
from strop.normalisers.base import Temperature
from strop.sharpness import RowStats
from strop.studies.retrieval.evaluation.temperature_solver import beta_for_entropy

Rule = Callable[[Tensor, RowStats], Tensor]
TRAINED_SIZE = 16
"""The largest size in the paper's training."""


@dataclass(frozen=True)
class Fitted:
    """What the rules take from data: all of it in-distribution, or of the validation sizes that `gamma` names."""

    refit: tuple[float, ...] = ()  # polynomial in H, highest power first
    train_entropy: float | None = None
    gamma: float | None = None
    trained: int = TRAINED_SIZE


def temperature_rules(fitted: Fitted) -> dict[str, Rule]:
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
        out["train entropy"] = lambda logits, stats: beta_for_entropy(logits, target)
    out["log n"] = _of(LogN(fitted.trained))
    out["1 + log"] = lambda logits, stats: 1.0 + _growth(stats, fitted.trained).log()
    if fitted.gamma is not None:
        gamma = fitted.gamma
        out["power"] = lambda logits, stats: _growth(stats, fitted.trained).pow(gamma)
        out["calibrated"] = lambda logits, stats: torch.maximum(
            out["adaptive"](logits, stats), out["power"](logits, stats)
        )
    return out


def constant_rule(beta: float) -> Rule:
    """The same β for every row."""
    return lambda logits, stats: logits.new_full(logits.shape[:-1], beta)


def _of(normaliser: Temperature) -> Rule:
    return lambda logits, stats: normaliser.inverse_temperature(stats)


def _growth(stats: RowStats, trained: int) -> Tensor:
    """How many times larger than the largest training set the row is; 1 for smaller ones."""
    return (stats.n_keys.to(stats.mean.dtype) / trained).clamp(min=1.0)
