"""The names of forms."""

import pytest

from strop.edges.forms import FORMS, QUERY_EDITS, TEMPERATURES, read_form
from strop.edges.output_scales import OutputScales
from strop.edges.parts import PARTS
from strop.errors import ArgumentError


def test_every_term_has_its_part():
    assert [*TEMPERATURES, *QUERY_EDITS, OutputScales.term] == list(PARTS)
    assert [read_form(form) for form in FORMS] == [(form,) if form != "none" else () for form in FORMS]
    fields = [field for part in {kind.fields for kind in PARTS.values()} for field in part]
    assert len(fields) == len(set(fields))  # in a file no two parts may have a name in common


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("constant+log-n", "at most one temperature"),
        ("pairs+query", "at most one edit of the query"),
        ("pears", "pairs"),
        ("norm", "got 'norm'. Use pairs: where heads share a query norm, it scales that norm's weight"),
        ("pairs+none+", "form"),
        ("", "form"),
    ],
)
def test_what_cannot_be_joined_is_refused(form, words):
    with pytest.raises(ArgumentError, match=words):
        read_form(form)
