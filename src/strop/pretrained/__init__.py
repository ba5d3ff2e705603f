"""Where a model and a text come from.

sources.py   a folder, a hub name, or a package that carries weights; convert.py: GGUF to safetensors in a cache
gguf_head.py what a GGUF file says of itself
load.py      opening a model and its tokeniser; devices.py: on which device
text.py      the text that a probe reads, cut to wanted lengths
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.pretrained.load import Pretrained as Pretrained
    from strop.pretrained.load import load_model as load_model
    from strop.pretrained.sources import Source as Source
    from strop.pretrained.sources import find_model as find_model

_HOMES = {
    "Pretrained": "load",
    "Source": "sources",
    "find_model": "sources",
    "load_model": "load",
}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
