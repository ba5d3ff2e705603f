import math

import pytest

from strop.report.format import duration, fixed, mean_sd, number, p_value, percent


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (math.nan, "–"), (math.inf, "∞"), (-math.inf, "−∞"), (0.0, "0"), (0, "0"), (1024, "1,024"),
     (-7, "−7"), (0.012345, "0.0123"), (5.6949, "5.69"), (99.96, "100"), (0.99996, "1.00"), (1234.5, "1,234"),
     (-0.5, "−0.500"), (2.4e-7, "2.40e-7"), (-2.4e-7, "−2.40e-7"), (1.5e12, "1.50e12"), (10**12, "1.00e12"),
     (True, "True"), ("a", "a")],
)  # fmt: skip
def test_number(value, text):
    assert number(value) == text


def test_fixed_and_percent():
    assert fixed(-0.04) == "0.0"
    assert fixed(-0.06) == "−0.1"
    assert fixed(math.inf) == "∞"
    assert fixed(math.nan) == "–"
    assert percent(0.98649) == "98.6"


def test_mean_sd_uses_the_sample_deviation():
    assert mean_sd([0.80, 0.82, 0.84], scale=100) == "82.0 ± 2.0"
    assert mean_sd([0.5], scale=100) == "50.0"
    assert mean_sd([]) == "–"


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.4, "0.40"), (0.0499, "0.05"), (0.01, "0.01"), (0.0099, "1e-2"), (2e-4, "2e-4"), (1e-20, "< 1e-16"),
     (0.0, "< 1e-16"), (None, "–"), (math.nan, "–")],
)  # fmt: skip
def test_p_value(p, text):
    assert p_value(p) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.254, "0.25 s"), (42.4, "42 s"), (59.7, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text
