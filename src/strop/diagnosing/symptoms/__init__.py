"""The other ways in which long inputs fail, each one file with its formula and its paper.

symptom.py    what a symptom is: a number a head, measured at the answers' rows or on a whole text; or one of the model
gaps.py       the β that parts the keys nearest to the first
sinks.py      weight on the first token and on repeated ones
reference.py  weight where it should be
rotary.py     how many rotary frequencies a head uses
variance.py   how much a head's output still varies
spectra.py    eigenvalues of attention's Laplacian
collapse.py   nearly equal inputs that end in nearly equal states
accuracy.py   how right the answers seem, without the answers

A new one is one file with `symptoms`, and a line here.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from strop.diagnosing.symptoms.symptom import AnswerSymptom, ModelSymptom, RowSymptom, Symptom, TextSymptom


def _find() -> tuple[Symptom, ...]:
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return tuple(one for module in modules for one in getattr(module, "symptoms", ()))


SYMPTOMS: tuple[Symptom, ...] = _find()
ROW_SYMPTOMS = tuple(one for one in SYMPTOMS if isinstance(one, RowSymptom))
ANSWER_SYMPTOMS = tuple(one for one in SYMPTOMS if isinstance(one, AnswerSymptom))
TEXT_SYMPTOMS = tuple(one for one in SYMPTOMS if isinstance(one, TextSymptom))
MODEL_SYMPTOMS = tuple(one for one in SYMPTOMS if isinstance(one, ModelSymptom))
