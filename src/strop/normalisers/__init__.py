"""Every rule that turns logits into weights.

Choose one by name in `strop.attention(…, normaliser="adaptive")`, or build its class to give it settings. `NAMES` lists
the names.

A new one is one file, and one line below: the import registers it under the `name` that the class gives itself
(docs/normalisers.md walks through it).
"""

from __future__ import annotations

from strop._checks import require_known
from strop.errors import ArgumentError
from strop.normalisers.adaptive import PAPER_COEFFICIENTS as PAPER_COEFFICIENTS
from strop.normalisers.adaptive import AdaptiveTemperature as AdaptiveTemperature
from strop.normalisers.asentmax import ASEntmax as ASEntmax
from strop.normalisers.base import Normaliser as Normaliser
from strop.normalisers.base import Temperature as Temperature
from strop.normalisers.constant import Softmax as Softmax
from strop.normalisers.differential import Differential as Differential
from strop.normalisers.entmax import Entmax as Entmax
from strop.normalisers.entmax import Entmax15 as Entmax15
from strop.normalisers.entmax import Sparsemax as Sparsemax
from strop.normalisers.hard import AverageHard as AverageHard
from strop.normalisers.hard import Hard as Hard
from strop.normalisers.hard import TopK as TopK
from strop.normalisers.length import InfoScale as InfoScale
from strop.normalisers.length import Llama4Temperature as Llama4Temperature
from strop.normalisers.length import LogN as LogN
from strop.normalisers.length import RelativeLogN as RelativeLogN
from strop.normalisers.length import YaRNTemperature as YaRNTemperature
from strop.normalisers.linear import Linear as Linear
from strop.normalisers.multi_token import MultiToken as MultiToken
from strop.normalisers.power import PowerN as PowerN
from strop.normalisers.qassmax import QASSMax as QASSMax
from strop.normalisers.selective import Selective as Selective
from strop.normalisers.selective_temperature import SelectiveTemperature as SelectiveTemperature
from strop.normalisers.sigmoid import Sigmoid as Sigmoid
from strop.normalisers.sink import LearnedSink as LearnedSink
from strop.normalisers.sink import OffByOne as OffByOne
from strop.normalisers.sink import WithSink as WithSink
from strop.normalisers.softpick import Softpick as Softpick
from strop.normalisers.ssmax import SSMax as SSMax
from strop.normalisers.stick_breaking import StickBreaking as StickBreaking
from strop.normalisers.tra import TRA as TRA

_CLASSES = [found for found in globals().values() if isinstance(found, type) and issubclass(found, Normaliser)]

NAMES: dict[str, type[Normaliser]] = {found.name: found for found in _CLASSES if vars(found).get("name")}
"""Short name → class: what `attention`, `by_name` and the command line know."""

_SHARED: dict[str, Normaliser] = {}

__all__ = sorted(["NAMES", "PAPER_COEFFICIENTS", "by_name", *(found.__name__ for found in _CLASSES)])


def by_name(name: str, **settings: object) -> Normaliser:
    """Build a normaliser from its short name.

    Args:
        name: One of `NAMES`. An unknown name is refused, and the nearest known one is suggested.
        settings: Arguments of its class. Some classes cannot do without: `by_name("log_n", trained_length=2048)`.

    Returns:
        A new normaliser, with parameters of its own where it learns.

    Examples:
        >>> from strop.normalisers import by_name
        >>> by_name("top_k", k=8)
        TopK(k=8)
    """
    require_known("normaliser", name, NAMES)
    try:
        return NAMES[name](**settings)
    except TypeError as error:
        raise ArgumentError(
            f"normaliser {name!r} must be given its settings: {error}. Build it yourself: {NAMES[name].__name__}(…)."
        ) from error


def find_shared(name: str) -> Normaliser:
    """Return the one normaliser of this name with its default settings: asking again builds nothing."""
    found = _SHARED.get(name)
    if found is None:
        found = _SHARED[name] = by_name(name)
    return found


def __dir__() -> list[str]:
    return __all__
