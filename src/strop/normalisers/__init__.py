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
from strop.normalisers.entmax import Entmax, Entmax15, Sparsemax
from strop.normalisers.hard import AverageHard, Hard, TopK
from strop.normalisers.length import Llama4Temperature, LogN, YaRNTemperature
from strop.normalisers.qassmax import QASSMax
from strop.normalisers.sink import LearnedSink, OffByOne, WithSink
from strop.normalisers.ssmax import SSMax

NAMES: dict[str, Callable[..., Normaliser]] = {
    "softmax": Softmax,
    "adaptive": AdaptiveTemperature,
    "ssmax": SSMax,
    "log_n": LogN,
    "llama4": Llama4Temperature,
    "yarn": YaRNTemperature,
    "qassmax": QASSMax,
    "sparsemax": Sparsemax,
    "entmax15": Entmax15,
    "entmax": Entmax,
    "asentmax": ASEntmax,
    "top_k": TopK,
    "hard": Hard,
    "average_hard": AverageHard,
    "off_by_one": OffByOne,
    "sink": LearnedSink,
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
    "ASEntmax",
    "AdaptiveTemperature",
    "AverageHard",
    "Entmax",
    "Entmax15",
    "Hard",
    "LearnedSink",
    "Llama4Temperature",
    "LogN",
    "Normaliser",
    "OffByOne",
    "QASSMax",
    "SSMax",
    "Softmax",
    "Sparsemax",
    "Temperature",
    "TopK",
    "WithSink",
    "YaRNTemperature",
    "by_name",
]
