"""Tests over seeds: two ways on the same problems and the same initial weights, one pair of numbers a seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def paired_p(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Two-sided paired t-test over seeds; 1 when no pair differs, None where t is undefined.

    That is for fewer than two seeds, and where all differ by the same: two seeds that miss one set each prove nothing.
    """
    gaps = [x - y for x, y in zip(a, b, strict=True)]
    if not any(gaps):
        return 1.0 if len(gaps) > 1 else None
    if max(gaps) - min(gaps) < 1e-9:
        return None
    mean, deviation = statistics.fmean(gaps), statistics.stdev(gaps)
    from scipy.special import stdtr  # type: ignore[import-untyped]

    return float(2 * stdtr(len(gaps) - 1, -abs(mean) / (deviation / math.sqrt(len(gaps)))))
