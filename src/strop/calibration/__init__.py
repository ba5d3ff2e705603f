"""What should each head of a frozen model do differently? From a little data, within a budget of drift.

verb.py            `calibrate`: the whole of it, from a model and a task to an Edge
maker.py           one calibration: a run that goes on if interrupted; ladder.py: climb from form to form
settings.py        how to descend, and on which data
data.py            batches, validation, guard and prose from a recipe; echoes.py: batches without answers
objective.py       likelihood of answers, drift from the untouched model, harm to guarded tasks
descent.py         the descent: budget, validation, early stopping; optimiser.py: steps in the metric of drift
still.py           what a step leaves as it was: prose and guarded tasks in turn
numbers.py         the numbers that are moved, and an unfinished calibration on disk
recompute.py       gradients in less memory
hold.py            an edge from statistics alone
"""

from __future__ import annotations

from strop.calibration.settings import Recipe, Settings
from strop.calibration.verb import calibrate

__all__ = ["Recipe", "Settings", "calibrate"]


def __dir__() -> list[str]:
    return __all__
