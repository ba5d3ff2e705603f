"""The form of an edge: which parts it has, by a name such as "constant", "pairs" or "query+log-n". Needs no torch.

A form joins at most one temperature and one edit of the query; "none" has neither: such an edge only scales outputs.
"""

from __future__ import annotations

from strop._checks import require, require_known

TEMPERATURES = ("constant", "layer", "log-n", "power-n", "polynomial", "hold")
QUERY_EDITS = ("pairs", "query")
NONE = "none"
FORMS = (*TEMPERATURES, *QUERY_EDITS, NONE)
AUTO = "auto"
"""No form: calibration climbs from one to the next (calibration/ladder.py)."""

ELSEWHERE = {
    "head": "Use constant, one β for each head",
    "lora": "Use query, a low-rank edit of the query projection",
    "norm": "Use pairs: where heads share a query norm, it scales that norm's weight",
}
"""Names that others have for a form, and what to use."""


def read_form(form: str) -> tuple[str, ...]:
    """Return the terms of a form, or raise naming what is wrong with it.

    Examples:
        >>> read_form("pairs+log-n")
        ('pairs', 'log-n')
    """
    if form == NONE:
        return ()
    terms = tuple(form.split("+"))
    for term in terms:
        require(term not in ELSEWHERE, "form must be known", repr(term), ELSEWHERE.get(term, ""))
        require_known("form", term, FORMS)
    for kind, known in (("temperature", TEMPERATURES), ("edit of the query", QUERY_EDITS)):
        require(sum(term in known for term in terms) <= 1, f"form must join at most one {kind}", form)
    return terms
