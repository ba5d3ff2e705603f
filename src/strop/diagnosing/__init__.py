"""What fails in a model as its inputs grow, and can a temperature mend it?

verb.py         `diagnose`: a model and tasks → a Diagnosis with verdict, causes, heads and report
plan.py         what is asked of it
sizes.py        which prompts: sizes that double until the model fails, or a user's own prompts
asking.py       tokens, where the evidence stands among them; the context read once
weighing.py     what a row of attention does with the evidence
trace.py        the same for every head, inside the forward pass
groups.py       all answers of one task and size
symptoms/       the other ways in which long inputs fail, one file each
curves.py       symptoms against size
gap_edge.py     the edge that gap counting predicts without answers
trial.py        what one step of temperatures mends
carriers.py     which heads carry answers: retrieval score, and what their silence costs
causes.py       why an answer is wrong
heads.py        the role of every head
examination.py  all of it, task by task
verdict.py      what it means, in words, and the next command
report.py       tables and the page; drawings.py its figures
"""

from __future__ import annotations

from strop.diagnosing.verb import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]


def __dir__() -> list[str]:
    return __all__
