"""Which heads of a model go blunt as its context grows?

verb.py      `probe`: texts of growing length, every head measured; a result with records, summary and report
summary.py   slopes, horizons, classes, the sentence
bounds.py    Proposition 3.1 on a head's weights
verdict.py   is bluntness a problem, and what to do next
report.py    the page
"""

from __future__ import annotations

from strop.probing.verb import ProbeConfig, ProbeResult, probe

__all__ = ["ProbeConfig", "ProbeResult", "probe"]


def __dir__() -> list[str]:
    return __all__
