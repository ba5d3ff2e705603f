"""Tables at any width: what identifies a row stays, words are whole, and what has no room is named."""

import pytest

from strop.report.layout import rank_evenly, wrap
from strop.report.tables import Column, Table, size_columns

SIZES = [2**i for i in range(4, 15)]
WIDE = Table(
    [Column("rule", "accuracy, %"), *size_columns(SIZES), Column("verdict", rank=0.5)],
    [
        ["adaptive (recommended)", *["100.0 ± 0.1"] * 11, "better than softmax"],
        ["adaptive", *["98.6 ± 0.1"] * 11, "no different"],
    ],
    "A caption that is itself longer than the sixty columns of a narrow terminal",
)
HEADS = Table.of(
    [{"layer": i, "head": 3, "class": "first token", **{f"number {j}": 1234.5 for j in range(9)}} for i in range(3)],
    ["layer", "head", "class", *(Column(f"number {j}", align="right") for j in range(9))],
)


@pytest.mark.parametrize("table", [WIDE, HEADS])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_lines_fit_rows_are_told_apart_and_columns_are_shown_or_named(table, width):
    text = table.text(width)
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    for row in table.cells():
        assert all(word in words for word in row[0].split())
    gone = table.dropped(width)
    kept = [column.heading for column in table.columns if column.heading not in gone]
    assert all(word in words for heading in kept for word in heading.split())
    assert (gone == []) == (width == 200 or (width == 120 and table is HEADS))
    assert "…" not in text


def test_columns_go_in_the_order_of_their_ranks():
    """The largest and the smallest size stay longest, and the verdict longer than those between."""
    assert WIDE.dropped(80)[:2] == ["32", "64"]
    assert not {"16", "16,384", "verdict"} & set(WIDE.dropped(80))
    assert HEADS.dropped(60) == [f"number {j}" for j in range(5, 9)]  # unless told otherwise, the last first
    assert rank_evenly(5) == [1, 3, 2, 4, 0]
    assert rank_evenly(1) == [0]


def test_numbers_are_never_broken_and_headings_wrap():
    text = Table([Column("what"), Column("n", "a long heading", str, "right")], [["x", "98.6 ± 0.1"]]).text(16)
    assert text.splitlines() == ["what      a long", "         heading", "x     98.6 ± 0.1"]


def test_as_many_first_columns_stay_as_tell_the_rows_apart():
    rows = [{"task": "recall", "phrasing": word, "size": n, "p": 0.5} for word in ("code", "room") for n in (4, 16)]
    table = Table.of(rows, ["task", "phrasing", "size", Column("p", "a_very_long_heading_of_one_word")])
    assert (
        table.dropped(25) == table.dropped(18) == ["a_very_long_heading_of_one_word"]
    )  # 18 is too narrow for the rest
    assert table.text(25).splitlines()[-1] == "recall  room        16"


def test_a_name_that_is_wider_than_the_screen_goes_on_in_the_next_line():
    text = Table([Column("model"), Column("n")], [["x" * 70, 1], ["y", 2]]).text(60)
    assert max(map(len, text.splitlines())) <= 60
    assert text.count("x") == 70


def test_sentences_wrap_at_spaces_and_keep_paths_and_lines():
    path = "runs/" + "a" * 70
    assert wrap(f"Report: {path}\n\nOne two", 20) == f"Report:\n{path}\n\nOne two"
    assert wrap("a b" * 100, None) == "a b" * 100
