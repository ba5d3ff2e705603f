"""The paper's max-retrieval study (arXiv 2410.01104), from training to the page: `strop reproduce`.

    result = reproduce(Study.quick())      # in a clone of the repository; Study() trains the models itself
    print(result.headline)
    result.report("retrieval.html")

study.py              `Study`: what the numbers depend on
settings.py           ways to train, and what the paper printed
reproduction.py       `reproduce`: train, survey, fit, evaluate
result.py             `Reproduction`: records, tables, claims, report
jobs.py, meter.py     the work of one process, and how far it is
training/             deterministic, resumable training
evaluation/           frozen models at any size, under every rule for the temperature
report/               tables, claims, figures, words
checkpoint_folder.py  the trained models of a clone, in checkpoints/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.studies.retrieval.checkpoint_folder import find_checkpoints as find_checkpoints
    from strop.studies.retrieval.reproduction import reproduce as reproduce
    from strop.studies.retrieval.result import Reproduction as Reproduction
    from strop.studies.retrieval.settings import SETTINGS as SETTINGS
    from strop.studies.retrieval.study import Study as Study

_HOMES = {
    "Reproduction": "result",
    "SETTINGS": "settings",
    "Study": "study",
    "find_checkpoints": "checkpoint_folder",
    "reproduce": "reproduction",
}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
