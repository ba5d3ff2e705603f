"""How another rule gets into a model: `sharpened` puts one in, `observed` measures what runs.

sharpen.py        another normaliser for the length of a block, by layer and head
observe.py        numbers of every head from whatever runs in a block; measure.py says which
cover.py          which attention of a model is reached, and which is not
sites.py          where a model's attention is, and which layers a user means
reading.py        what the code of a class says of its attention
layout.py         where an attention module keeps its projections and norms, one entry per family
identity.py       which model this is: architecture, heads, a fingerprint of its weights
freeze.py         no dropout and no gradients while a model is measured
placement.py      where a model's layers lie, and their weights
frames.py         what is in force on which module
interface.py      the way into transformers; masks.py: its masks, lazily when large
torch_modules.py  the way into modules that call torch's attention themselves
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.patching.cover import Coverage as Coverage
    from strop.patching.cover import coverage as coverage
    from strop.patching.observe import Observations as Observations
    from strop.patching.observe import observed as observed
    from strop.patching.sharpen import sharpened as sharpened

_HOMES = {
    "Coverage": "cover",
    "Observations": "observe",
    "coverage": "cover",
    "observed": "observe",
    "sharpened": "sharpen",
}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
