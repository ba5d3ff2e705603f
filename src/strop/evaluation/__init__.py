"""Is a model better with an edge, and at what cost? The same prompts and prose, before and after.

verb.py      `evaluate`: a model and an edge → a Comparison, with tables and a report
suite.py     which prompts, prose and lengths
growth.py    which sizes, when nobody names any; timing.py: how long it will take
marks.py     one model's measurement of a suite, kept on disk
answers.py   answers and prose, one model at a time and side by side
paired.py    intervals and paired tests
verdict.py   what a comparison means, in words
report.py    the page
drawings.py  its figures
judging/     benchmarks that nobody here wrote, by lm-evaluation-harness
"""

from __future__ import annotations

from strop.evaluation.suite import Suite
from strop.evaluation.verb import Comparison, evaluate

__all__ = ["Comparison", "Suite", "evaluate"]


def __dir__() -> list[str]:
    return __all__
