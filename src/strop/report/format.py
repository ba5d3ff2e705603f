"""How numbers look. Every table, caption and sentence of a report takes its numbers from here."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

MISSING = "–"


def number(value: object, digits: int = 3) -> str:
    """Return `digits` significant digits, whole numbers whole: 0.0123, 5.69, 1,024, 2.40e-7, ∞; – for None and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−") if abs(value) < 10**9 else _scientific(float(value), digits)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits}g}"))))  # rounded first: 0.99996 is written as 1.00
    if not -4 <= exponent < 9:
        return _scientific(value, digits)
    return fixed(value, max(0, digits - 1 - exponent))


def fixed(value: float, decimals: int = 1) -> str:
    """Return a number with a fixed count of decimals, for columns that should line up."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.{decimals}f}"
    if text.strip("-0.,") == "":  # no minus before a rounded zero
        text = text.lstrip("-")
    return text.replace("-", "−")


def percent(value: float, decimals: int = 1) -> str:
    """Return a fraction in per cent, without the sign: 0.986 → 98.6 (the heading says %)."""
    return fixed(100 * value, decimals)


def mean_sd(values: Sequence[float], decimals: int = 1, scale: float = 1.0) -> str:
    """Return "mean ± sample standard deviation" of scale·values; the mean alone for a single value."""
    if not values:
        return MISSING
    mean = fixed(scale * statistics.fmean(values), decimals)
    return f"{mean} ± {fixed(scale * statistics.stdev(values), decimals)}" if len(values) > 1 else mean


def p_value(p: float | None) -> str:
    """Return a p-value: two decimals above 0.01, one digit below (2e-4), "< 1e-16" at the end of float64."""
    if p is None or math.isnan(p):
        return MISSING
    if p < 1e-16:
        return "< 1e-16"
    if p >= 0.01:
        return f"{p:.2f}"
    return _scientific(p, 1)


def duration(seconds: float) -> str:
    """Return a time as 0.25 s, 42 s, 3 min 20 s or 2 h 05 min."""
    if seconds < 10:
        return f"{number(seconds, 2)} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _scientific(value: float, digits: int) -> str:
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent)}".replace("-", "−", 1) if value < 0 else f"{mantissa}e{int(exponent)}"
