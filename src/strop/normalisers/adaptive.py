"""Adaptive temperature (arXiv 2410.01104): sharpen a row by as much as its entropy calls for, at inference time.

With p = softmax(e) and H = −Σ p log p in nats,

    β(H) = max(P(H), 1) if H > 0.5 else 1,     P(H) = −0.037 H⁴ + 0.481 H³ − 2.3 H² + 4.917 H − 1.791
    weights = softmax(β(H)·e)

The published polynomial was fitted on one small model. It crosses 1 at H = 0.8486 (so the guard at 0.5 never binds),
peaks at 2.4214 for H = 4.412 and falls back through 1 at H = 5.9445. Beyond that, about 380 equally weighted keys, β
is 1 again: *as published, the method switches itself off just where dispersion is worst*. `beyond_fit="paper"` keeps
that; `beyond_fit="hold"` keeps β at its peak from there on. `outside_fit` says for which rows the difference matters.

β ≥ 1, so a row's order never changes and its largest key stays the largest. Gradients flow through H unless
`detach_beta` is set. Applied to every head of a pretrained language model that never saw it, the published polynomial
does harm; calibrate instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from strop._checks import require, require_known, require_number
from strop._types import Rows
from strop.normalisers.base import Temperature
from strop.sharpness import RowStats

PAPER_COEFFICIENTS = (-0.037, 0.481, -2.3, 4.917, -1.791)


class AdaptiveTemperature(Temperature):
    """β as a polynomial of the row's entropy; coefficients stand highest power first, as published."""

    uses = "entropy"

    def __init__(
        self,
        coefficients: Sequence[float] = PAPER_COEFFICIENTS,
        threshold: float = 0.5,
        beyond_fit: Literal["paper", "hold"] = "paper",
        detach_beta: bool = False,
    ) -> None:
        super().__init__()
        require(len(coefficients) > 0, "coefficients must hold at least one number", coefficients)
        require_known("beyond_fit", beyond_fit, ("paper", "hold"))
        self.coefficients = tuple(require_number("coefficients", c) for c in coefficients)
        self.threshold = require_number("threshold", threshold)
        self.beyond_fit = beyond_fit
        self.detach_beta = detach_beta
        self.peak, self.end = _peak_and_end(self.coefficients, self.threshold)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """β(H); a NaN entropy gives a NaN β, never a silent 1."""
        entropy = stats.entropy
        fitted = entropy.clamp(max=self.peak) if self.beyond_fit == "hold" else entropy
        beta = torch.where(entropy <= self.threshold, 1.0, _polynomial(self.coefficients, fitted).clamp(min=1.0))
        return beta.detach() if self.detach_beta else beta

    def outside_fit(self, stats: RowStats) -> Rows:
        """True for rows whose entropy lies past the end of the fit, where the published β is back at 1."""
        return stats.entropy > self.end

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"coefficients={self.coefficients}, threshold={self.threshold:g}, beyond_fit={self.beyond_fit!r}"


def _polynomial(coefficients: Sequence[float], x: torch.Tensor) -> torch.Tensor:
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def _peak_and_end(coefficients: Sequence[float], threshold: float) -> tuple[float, float]:
    """Entropy where the polynomial is largest and, beyond, the one where it is back at 1; inf where it never turns."""
    degree = len(coefficients) - 1
    slope = [c * (degree - i) for i, c in enumerate(coefficients[:-1])]
    turns = [x for x in _real_roots(slope) if x > threshold]
    values = _polynomial(coefficients, torch.tensor(turns, dtype=torch.float64)).tolist()
    falls = next((c for c in coefficients[:-1] if c != 0), 0.0) < 0
    peak = max(zip(values, turns, strict=True))[1] if turns and falls else torch.inf
    crossings = [x for x in _real_roots([*coefficients[:-1], coefficients[-1] - 1.0]) if x > peak]
    return peak, min(crossings, default=torch.inf)


def _real_roots(coefficients: Sequence[float]) -> list[float]:
    """Real roots in float64, as eigenvalues of the companion matrix."""
    start = next((i for i, c in enumerate(coefficients) if c != 0), len(coefficients))
    monic = [c / coefficients[start] for c in coefficients[start:]]
    if len(monic) < 2:
        return []
    companion = torch.diag(torch.ones(len(monic) - 2, dtype=torch.float64), -1)
    companion[0] = -torch.tensor(monic[1:], dtype=torch.float64)
    return sorted(root.real for root in torch.linalg.eigvals(companion).tolist() if abs(root.imag) < 1e-9)
