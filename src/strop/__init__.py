"""strop: attention that stays sharp on inputs larger than those it was trained on.

Names load when they are first used, so that `import strop` costs nothing and the command line answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from strop import calibrate as calibrate
    from strop.calibrate import Edge as Edge
    from strop.hf import observed as observed
    from strop.hf import sharpened as sharpened
    from strop.kernels import attention as attention
    from strop.kernels import native as native
    from strop.normalisers import TRA as TRA
    from strop.normalisers import AdaptiveTemperature as AdaptiveTemperature
    from strop.normalisers import ASEntmax as ASEntmax
    from strop.normalisers import AverageHard as AverageHard
    from strop.normalisers import Differential as Differential
    from strop.normalisers import Entmax as Entmax
    from strop.normalisers import Entmax15 as Entmax15
    from strop.normalisers import Hard as Hard
    from strop.normalisers import LearnedSink as LearnedSink
    from strop.normalisers import Linear as Linear
    from strop.normalisers import Llama4Temperature as Llama4Temperature
    from strop.normalisers import LogN as LogN
    from strop.normalisers import MultiToken as MultiToken
    from strop.normalisers import Normaliser as Normaliser
    from strop.normalisers import OffByOne as OffByOne
    from strop.normalisers import PowerN as PowerN
    from strop.normalisers import QASSMax as QASSMax
    from strop.normalisers import RelativeLogN as RelativeLogN
    from strop.normalisers import Selective as Selective
    from strop.normalisers import SelectiveTemperature as SelectiveTemperature
    from strop.normalisers import Sigmoid as Sigmoid
    from strop.normalisers import Softmax as Softmax
    from strop.normalisers import Softpick as Softpick
    from strop.normalisers import Sparsemax as Sparsemax
    from strop.normalisers import SSMax as SSMax
    from strop.normalisers import StickBreaking as StickBreaking
    from strop.normalisers import Temperature as Temperature
    from strop.normalisers import TopK as TopK
    from strop.normalisers import WithSink as WithSink
    from strop.normalisers import YaRNTemperature as YaRNTemperature
    from strop.sharpness import RowStats as RowStats
    from strop.sharpness import best_top_weight as best_top_weight
    from strop.sharpness import dispersion_bounds as dispersion_bounds
    from strop.sharpness import entropy_of as entropy_of
    from strop.sharpness import entropy_slope as entropy_slope
    from strop.sharpness import horizon as horizon
    from strop.sharpness import spread_bound as spread_bound

_HOMES = {
    "strop.calibrate": ("Edge",),
    "strop.hf": ("observed", "sharpened"),
    "strop.kernels": ("attention",),
    "strop.normalisers": (
        "ASEntmax", "AdaptiveTemperature", "AverageHard", "Differential", "Entmax", "Entmax15", "Hard",
        "LearnedSink", "Linear", "Llama4Temperature", "LogN", "MultiToken", "Normaliser", "OffByOne", "PowerN",
        "QASSMax", "RelativeLogN", "SSMax", "Selective", "SelectiveTemperature", "Sigmoid", "Softmax", "Softpick",
        "Sparsemax", "StickBreaking", "TRA", "Temperature", "TopK", "WithSink", "YaRNTemperature",
    ),
    "strop.sharpness": (
        "RowStats", "best_top_weight", "dispersion_bounds", "entropy_of", "entropy_slope", "horizon", "spread_bound",
    ),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {
    "calibrate": "strop.calibrate",
    "native": "strop.kernels.native",
    "normalisers": "strop.normalisers",
    "sharpness": "strop.sharpness",
}

__all__ = ["__version__", *sorted(_HOME_OF), *sorted(_MODULES)]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'strop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
