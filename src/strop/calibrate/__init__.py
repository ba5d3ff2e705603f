"""Calibration: what each head of a frozen model should do differently, from a little data.

edge.py        an edge: the per-head numbers and everything needed to check and reuse them; edge_file.py: its file
forms.py       what is learned for a head: a constant, a + b·log n, a polynomial of its entropy
outputs.py     SEAL's scale of each head's output, beside or instead of a temperature
identity.py    which model an edge belongs to
bake.py        an edge folded into the weights, where that is possible
recipe.py      what a calibration is fed
objective.py   likelihood of answers, drift from the untouched model
guard.py       other tasks on which no harm is to be done
tuned.py       the numbers that are moved; queries.py: constants as scaled queries; memory.py: layers run again
natural.py     the optimiser: steps in the metric of drift
fit.py         the descent: budget, early stopping; state.py: resuming
hold.py        an edge from statistics alone: hold each head's entropy at its value at a trusted length
label_free.py  batches without answers: the end of a long text, as it is or an echo, judged by a shorter context
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strop.calibrate.edge import Edge as Edge
    from strop.calibrate.fit import calibrate as calibrate

_HOMES = {"Edge": "strop.calibrate.edge", "calibrate": "strop.calibrate.fit"}

__all__ = ["Edge", "calibrate"]


def __getattr__(name: str) -> object:
    """Load a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'strop.calibrate' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
