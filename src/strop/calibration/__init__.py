"""What should each head of a frozen model do differently? From a little data, within a budget of drift.

verb.py            `calibrate`: the whole of it, from a model and a task to an Edge
settings.py        how to descend, and on which data
edge.py            an Edge: per-head numbers for one model; edge_file.py: its file; card.py: its folder and card
forms.py           what is learned for a head: a constant, a + b·log n, a polynomial of its entropy
data.py            batches, validation, guard and prose from a recipe; echoes.py: batches without answers
objective.py       likelihood of answers, drift from the untouched model, harm to guarded tasks
descent.py         the descent: budget, validation, early stopping; optimiser.py: steps in the metric of drift
numbers.py         the numbers that are moved, and an unfinished calibration on disk
interventions.py   how they act on the model while it learns
hold.py            an edge from statistics alone
fold.py            what an edge does to weights, whatever its form; place.py: where that is in a model
bake.py            an edge folded into the weights, where that is possible
"""

from __future__ import annotations

from strop.calibration.edge import Edge
from strop.calibration.settings import Recipe, Settings
from strop.calibration.verb import calibrate

__all__ = ["Edge", "Recipe", "Settings", "calibrate"]


def __dir__() -> list[str]:
    return __all__
