"""CLRS-Text (arXiv 2406.04229): classical algorithms as questions in text, drawn from a seed, solved by themselves.

algorithm.py   what an algorithm is, and how its questions are written
inputs.py      numbers, strings and graphs
sorting.py, searching.py, dynamic.py, greedy.py, graphs.py   the algorithms
catalogue.py   all of them by name
vocabulary.py  text to tokens, a digit a token
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strop._lazy import lazy_names

if TYPE_CHECKING:
    from strop.studies.clrs.text.algorithm import Algorithm as Algorithm
    from strop.studies.clrs.text.algorithm import Question as Question
    from strop.studies.clrs.text.catalogue import ALGORITHMS as ALGORITHMS
    from strop.studies.clrs.text.catalogue import find_algorithm as find_algorithm
    from strop.studies.clrs.text.vocabulary import Vocabulary as Vocabulary

_HOMES = {
    "ALGORITHMS": "catalogue",
    "Algorithm": "algorithm",
    "Question": "algorithm",
    "Vocabulary": "vocabulary",
    "find_algorithm": "catalogue",
}
__all__ = [*_HOMES]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
