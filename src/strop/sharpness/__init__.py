"""How sharp a row of attention is, and how sharp it can be."""

from strop.sharpness.gaps import GapCounts
from strop.sharpness.rowstats import RowStats, entropy_of, upcast
from strop.sharpness.theory import best_top_weight, dispersion_bounds, entropy_slope, horizon, spread_bound

__all__ = [
    "GapCounts",
    "RowStats",
    "best_top_weight",
    "dispersion_bounds",
    "entropy_of",
    "entropy_slope",
    "horizon",
    "spread_bound",
    "upcast",
]


def __dir__() -> list[str]:
    return __all__
