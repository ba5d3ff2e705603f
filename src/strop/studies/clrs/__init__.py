"""The paper's second study (arXiv 2410.01104): classical algorithms as text, from small sizes to larger ones.

text/        the questions, and the algorithms that answer them
configs.py   what one run depends on
batches.py   questions as tensors
models.py    a decoder from scratch, or a pretrained model with low-rank changes, with any normaliser
fitting.py   training, of a model or of an edge
muon.py      an optimiser for processors without products in bfloat16
placed.py    adaptive temperature in some rows alone
marking.py   exact answers, right tokens, attention by digit
runs.py      one run in one process
study.py     `ClrsStudy`: what takes part, and how much work it is
competition.py   `run_clrs`, `read_clrs`: sweep, training, trials
comparison.py    an arm against softmax: intervals, tests
result.py    `ClrsResult`: records, tables, the page of report/
bundled.py   `read_bundled`: the results in results_*.json.gz
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.studies.clrs.bundled import read_bundled as read_bundled
    from strop.studies.clrs.competition import read_clrs as read_clrs
    from strop.studies.clrs.competition import run_clrs as run_clrs
    from strop.studies.clrs.configs import DecoderShape as DecoderShape
    from strop.studies.clrs.configs import LoraShape as LoraShape
    from strop.studies.clrs.configs import TokenBudget as TokenBudget
    from strop.studies.clrs.result import ClrsResult as ClrsResult
    from strop.studies.clrs.study import ClrsStudy as ClrsStudy

_HOMES = {
    "ClrsResult": "result",
    "ClrsStudy": "study",
    "DecoderShape": "configs",
    "LoraShape": "configs",
    "TokenBudget": "configs",
    "read_bundled": "bundled",
    "read_clrs": "competition",
    "run_clrs": "competition",
}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
