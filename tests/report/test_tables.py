from strop.report.format import mean_sd, percent
from strop.report.tables import Column, Table, pivot

RECORDS = [
    {"rule": "softmax", "n": 16, "accuracy": 0.98, "seed": 0},
    {"rule": "softmax", "n": 16, "accuracy": 0.96, "seed": 1},
    {"rule": "softmax", "n": 1024, "accuracy": 0.5, "seed": 0},
    {"rule": "a|b", "n": 16, "accuracy": 0.99, "seed": 0},
]


def test_markdown_formats_aligns_and_escapes():
    table = Table.of(RECORDS[2:], ["rule", "n", Column("accuracy", "accuracy, %", percent), "absent"])
    assert table.markdown() == (
        "| rule | n | accuracy, % | absent |\n| --- | ---: | ---: | --- |\n"
        "| softmax | 1,024 | 50.0 | – |\n| a\\|b | 16 | 99.0 | – |\n"
    )


def test_pivot_gathers_cells_and_leaves_gaps():
    table = pivot(RECORDS, "rule", "n", "accuracy", lambda v: mean_sd(v, scale=100))
    assert [column.heading for column in table.columns] == ["rule", "16", "1,024"]
    assert table.cells() == [["softmax", "97.0 ± 1.4", "50.0"], ["a|b", "99.0", "–"]]
    assert table.aligns() == ["left", "right", "right"]
    assert pivot(RECORDS, "rule", "n", "accuracy").rows[0][1] == 0.97


def test_best_cells_stand_out():
    table = Table([Column("a"), Column("b")], [[1, 2], [3, 4]], best=frozenset({(1, 1)}))
    assert table.markdown().splitlines()[3] == "| 3 | **4** |"


def test_the_terminal_gets_text_as_it_is():
    text = Table.of([{"model": "[bold]x[/bold]", "n": 16}], ["model", "n"], caption="What [red]it[/red] is").text(60)
    assert text == "What [red]it[/red] is\nmodel            n\n[bold]x[/bold]  16"


def test_records_keep_raw_values():
    assert Table.of(RECORDS[:1], ["n", "accuracy"]).records() == [{"n": 16, "accuracy": 0.98}]
