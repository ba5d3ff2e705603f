"""strop: attention that stays sharp on inputs larger than those it was trained on.

    strop.attention(q, k, v, normaliser="adaptive")     torch's attention with a choice of normaliser
    strop.probe(model, tokenizer)                       which heads go blunt as the context grows?
    strop.diagnose(model, tokenizer)                    what fails as inputs grow, and can a temperature mend it?
    strop.calibrate(model, tokenizer, task="recall")    what should each head do differently? → an Edge
    strop.evaluate(model, tokenizer, edge=edge)         is the model better with it, and at what cost?
    strop.coverage(model)                               which attention of the model is reached, and which is not
    with strop.sharpened(model, edge): …                use it
    strop.export(model, edge, to="gguf", out=…)         take it to llama.cpp, transformers, PEFT or vLLM
    with strop.sharded(shards): …                       rows longer than one machine: attention over ranks
    with strop.observed(model) as seen: …               numbers of every head from whatever runs in the block

Names load when they are first used, so that `import strop` costs nothing and the command line answers at once. After
`import strop`, transformers knows the attention implementation "strop".
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from strop import _missing, _transformers
from strop._version import __version__ as __version__

if TYPE_CHECKING:
    from strop import errors as errors
    from strop import normalisers as normalisers
    from strop import sharpness as sharpness
    from strop.calibration import calibrate as calibrate
    from strop.diagnosing import diagnose as diagnose
    from strop.edges import Edge as Edge
    from strop.errors import StropError as StropError
    from strop.evaluation import evaluate as evaluate
    from strop.exporting import export as export
    from strop.kernels import attention as attention
    from strop.kernels.shards import Shards as Shards
    from strop.kernels.shards import sharded as sharded
    from strop.patching import coverage as coverage
    from strop.patching import observed as observed
    from strop.patching import sharpened as sharpened
    from strop.probing import probe as probe
    from strop.sharpness import RowStats as RowStats
    from strop.sharpness import horizon as horizon

_HOMES = {
    "Edge": "strop.edges",
    "RowStats": "strop.sharpness",
    "Shards": "strop.kernels.shards",
    "StropError": "strop.errors",
    "attention": "strop.kernels",
    "calibrate": "strop.calibration",
    "coverage": "strop.patching",
    "diagnose": "strop.diagnosing",
    "evaluate": "strop.evaluation",
    "export": "strop.exporting",
    "horizon": "strop.sharpness",
    "observed": "strop.patching",
    "probe": "strop.probing",
    "sharded": "strop.kernels.shards",
    "sharpened": "strop.patching",
}
_MODULES = ("errors", "normalisers", "sharpness")

__all__ = ["__version__", *sorted((*_HOMES, *_MODULES))]

_missing.watch()
_transformers.announce()


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"strop.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'strop' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
