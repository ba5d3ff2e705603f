"""Adaptive temperature: β as a polynomial of a row's entropy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from strop._checks import require, require_known, require_number
from strop._types import Rows
from strop.normalisers.base import Temperature
from strop.normalisers.fusion import EntropyBeta, differentiate_polynomial, evaluate_polynomial
from strop.sharpness import RowStats

PAPER_COEFFICIENTS = (-0.037, 0.481, -2.3, 4.917, -1.791)
"""The polynomial of arXiv 2410.01104, highest power first."""


class AdaptiveTemperature(Temperature):
    """Sharpen each row by as much as its entropy calls for, at inference time.

    With p = softmax(e) and the entropy H = −Σ p log p in nats,

        β(H) = max(P(H), 1) if H > 0.5 else 1
        P(H) = −0.037 H⁴ + 0.481 H³ − 2.3 H² + 4.917 H − 1.791
        weights = softmax(β(H)·e)

    From arXiv 2410.01104. It learns nothing: P was fitted there on one small model. β ≥ 1, so the order of a row never
    changes and its largest key stays the largest.

    P crosses 1 at H = 0.8486 (so the threshold of 0.5 never binds), peaks at 2.4214 for H = 4.412 and falls back
    through 1 at H = 5.9445. Beyond that, at about 380 equally weighted keys, β is 1 again: *as published, the method
    switches itself off just where dispersion is worst*. `beyond_fit="hold"` keeps β at its peak instead. `outside_fit`
    says for which rows the difference matters.

    Use it on a model trained with softmax whose long rows go blunt. Do not put the published polynomial on every head
    of a pretrained language model, which it harms: use `strop.calibrate` there.

    Args:
        coefficients: Coefficients of P, highest power first.
        threshold: Rows whose entropy is at most this, in nats, keep β = 1.
        beyond_fit: What β does past the peak of P. "paper" follows P back to 1, "hold" stays at the peak.
        detach_beta: Stop gradients at β. Without it they flow through H as well.

    Examples:
        >>> import torch
        >>> from strop.normalisers import AdaptiveTemperature, Softmax
        >>> logits = torch.zeros(1, 128)
        >>> logits[0, 0] = 5.0  # one key stands out among 128
        >>> round(Softmax().weights(logits)[0, 0].item(), 3)
        0.539
        >>> round(AdaptiveTemperature().weights(logits)[0, 0].item(), 3)
        0.998

        Among 4,096 keys the published polynomial does nothing any more:

        >>> logits = torch.zeros(1, 4096)
        >>> logits[0, 0] = 5.0
        >>> for rule in (Softmax(), AdaptiveTemperature(), AdaptiveTemperature(beyond_fit="hold")):
        ...     print(round(rule.weights(logits)[0, 0].item(), 3))
        0.035
        0.035
        0.978
    """

    name = "adaptive"
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

    def fusion(self) -> EntropyBeta:
        """β as a polynomial of the entropy."""
        hold_at = self.peak if self.beyond_fit == "hold" else torch.inf
        return EntropyBeta(self.coefficients, self.threshold, hold_at, self.detach_beta)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """β(H); a NaN entropy gives a NaN β, never a silent 1."""
        return self.fusion().beta(stats.entropy)

    def outside_fit(self, stats: RowStats) -> Rows:
        """True for rows whose entropy lies past the end of the fit, where the published β is back at 1."""
        return stats.entropy > self.end

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"coefficients={self.coefficients}, threshold={self.threshold:g}, beyond_fit={self.beyond_fit!r}"


def _peak_and_end(coefficients: Sequence[float], threshold: float) -> tuple[float, float]:
    """Entropy where the polynomial is largest and, beyond, the one where it is back at 1; inf where it never turns."""
    turns = [x for x in _real_roots(differentiate_polynomial(coefficients)) if x > threshold]
    values = evaluate_polynomial(coefficients, torch.tensor(turns, dtype=torch.float64)).tolist()
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
