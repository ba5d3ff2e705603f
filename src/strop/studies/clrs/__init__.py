"""The paper's second study (arXiv 2410.01104): classical algorithms as text, from small sizes to larger ones.

text/        the questions, and the algorithms that answer them
configs.py   what one run depends on
batches.py   questions as tensors
models.py    a decoder from scratch, or a pretrained model with low-rank changes, with any normaliser
fitting.py   training, of a model or of an edge
marking.py   exact answers, right tokens, attention by digit
runs.py      one run in one process
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.studies.clrs.configs import DecoderShape as DecoderShape
    from strop.studies.clrs.configs import LoraShape as LoraShape
    from strop.studies.clrs.configs import TokenBudget as TokenBudget

_HOMES = {"DecoderShape": "configs", "LoraShape": "configs", "TokenBudget": "configs"}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
