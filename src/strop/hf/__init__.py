"""Real models: `sharpened` puts another normaliser into one, `observed` and `probe` measure every head of one.

patch.py      sharpened: another normaliser for the length of a block, by layer and head
sites.py      where a model's attention is, and which layers a user means
interface.py  the way into transformers        masks.py    its masks, lazily when large
modules.py    the way into torch's own modules  weights.py  dense weights, where a module must return them
frames.py     what is in force on which module  calls.py    one call of attention in one common form
heads.py      one normaliser made of two, by head
observe.py    observed: numbers from whatever runs in a block; measure.py and columns.py say how
probe.py      texts of growing length           summary.py  slopes, horizons, classes, the sentence
bounds.py     Proposition 3.1 on a head's weights
sources.py    where models come from            convert.py  GGUF to safetensors in a cache
load.py       opening a model                   text.py     tokens of a wanted length
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strop.hf.observe import observed as observed
    from strop.hf.patch import sharpened as sharpened

_HOMES = {"observed": "strop.hf.observe", "sharpened": "strop.hf.patch"}

__all__ = ["observed", "sharpened"]


def __getattr__(name: str) -> object:
    """Load a name when it is first used: finding a model needs no torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'strop.hf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
