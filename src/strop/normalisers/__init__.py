"""Every rule that turns logits into weights.

A new one is one file, one line below and one row in the README (docs/normalisers.md).
"""

from __future__ import annotations

from collections.abc import Callable

from strop._checks import require_known
from strop.normalisers.adaptive import PAPER_COEFFICIENTS, AdaptiveTemperature
from strop.normalisers.asentmax import ASEntmax
from strop.normalisers.base import Normaliser, Temperature
from strop.normalisers.constant import Softmax
from strop.normalisers.differential import Differential
from strop.normalisers.entmax import Entmax, Entmax15, Sparsemax
from strop.normalisers.hard import AverageHard, Hard, TopK
from strop.normalisers.length import Llama4Temperature, LogN, RelativeLogN, YaRNTemperature
from strop.normalisers.linear import Linear
from strop.normalisers.multi_token import MultiToken
from strop.normalisers.power import PowerN
from strop.normalisers.qassmax import QASSMax
from strop.normalisers.selective import Selective
from strop.normalisers.selective_temperature import SelectiveTemperature
from strop.normalisers.sigmoid import Sigmoid
from strop.normalisers.sink import LearnedSink, OffByOne, WithSink
from strop.normalisers.softpick import Softpick
from strop.normalisers.ssmax import SSMax
from strop.normalisers.stick_breaking import StickBreaking
from strop.normalisers.tra import TRA

NAMES: dict[str, Callable[..., Normaliser]] = {
    "softmax": Softmax,
    "adaptive": AdaptiveTemperature,
    "ssmax": SSMax,
    "log_n": LogN,
    "relative_log_n": RelativeLogN,
    "power_n": PowerN,
    "llama4": Llama4Temperature,
    "yarn": YaRNTemperature,
    "qassmax": QASSMax,
    "selective_temperature": SelectiveTemperature,
    "sparsemax": Sparsemax,
    "entmax15": Entmax15,
    "entmax": Entmax,
    "asentmax": ASEntmax,
    "top_k": TopK,
    "hard": Hard,
    "average_hard": AverageHard,
    "off_by_one": OffByOne,
    "sink": LearnedSink,
    "sigmoid": Sigmoid,
    "linear": Linear,
    "softpick": Softpick,
    "stick_breaking": StickBreaking,
    "tra": TRA,
    "selective": Selective,
    "differential": Differential,
    "multi_token": MultiToken,
}


def by_name(name: str, **settings: object) -> Normaliser:
    """Build a normaliser from its short name: by_name("top_k", k=8)."""
    require_known("normaliser", name, NAMES)
    try:
        return NAMES[name](**settings)
    except TypeError as error:
        made = getattr(NAMES[name], "__name__", name)
        raise ValueError(
            f"normaliser {name!r} must be given its settings: {error}. Build it yourself: {made}(…)."
        ) from error


__all__ = [
    "NAMES",
    "PAPER_COEFFICIENTS",
    "TRA",
    "ASEntmax",
    "AdaptiveTemperature",
    "AverageHard",
    "Differential",
    "Entmax",
    "Entmax15",
    "Hard",
    "LearnedSink",
    "Linear",
    "Llama4Temperature",
    "LogN",
    "MultiToken",
    "Normaliser",
    "OffByOne",
    "PowerN",
    "QASSMax",
    "RelativeLogN",
    "SSMax",
    "Selective",
    "SelectiveTemperature",
    "Sigmoid",
    "Softmax",
    "Softpick",
    "Sparsemax",
    "StickBreaking",
    "Temperature",
    "TopK",
    "WithSink",
    "YaRNTemperature",
    "by_name",
]
