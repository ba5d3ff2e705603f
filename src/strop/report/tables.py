"""One table for every place: the terminal, HTML, Markdown and CSV.

table = Table.of(records, [Column("rule"), Column("accuracy", "accuracy, %", percent)])
table = pivot(records, rows="rule", columns="n", value="accuracy", cell=lambda v: mean_sd(v, scale=100))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from strop.records import Record, Value
from strop.report.format import MISSING, number
from strop.report.layout import Grid, Style, choose_columns, lay_out, rank_evenly, wrap


@dataclass(frozen=True)
class Column:
    """A column: the record's key, its heading, how a value is written, where it stands.

    Where a screen is too narrow for all, columns of the highest `rank` are dropped first. None: its place in the table.
    """

    key: str
    title: str | None = None
    format: Callable[[Any], str] = number
    align: Literal["left", "right"] | None = None
    rank: float | None = None

    @property
    def heading(self) -> str:
        """The title, or the key."""
        return self.key if self.title is None else self.title


@dataclass(frozen=True, repr=False)
class Table:
    """Headings and rows of raw values; `best` holds the cells (row, column) to emphasise.

    Examples:
        >>> Table.of([{"n": 16, "accuracy": 0.984}, {"n": 1024, "accuracy": 0.5}], ["n", "accuracy"])
            n  accuracy
           16     0.984
        1,024     0.500
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    best: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, records: Iterable[Record], columns: Sequence[Column | str], caption: str = "") -> Table:
        """Make a table of records; a plain string is a column of that key."""
        chosen = [column if isinstance(column, Column) else Column(column) for column in columns]
        return cls(chosen, [[record.get(column.key) for column in chosen] for record in records], caption)

    def cells(self) -> list[list[str]]:
        """Return every cell as text."""
        return [[_text(column, value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def aligns(self) -> list[str]:
        """Return "left" or "right" for every column: as told, else right where all values are numbers."""
        return [column.align or _natural(row[i] for row in self.rows) for i, column in enumerate(self.columns)]

    def __repr__(self) -> str:
        return self.text()

    def text(self, width: int | None = None, style: Style | None = None) -> str:
        """Return the table as text that fits a width; None is as wide as it needs to be. layout.py says how."""
        grid = self._grid()
        lines = [wrap(self.caption, width)] if self.caption else []
        return "\n".join(lines + (lay_out(grid, width, style) if style else lay_out(grid, width)))

    def dropped(self, width: int) -> list[str]:
        """Return the headings of the columns for which this width has no room."""
        kept = choose_columns(self._grid(), width)
        return [column.heading for i, column in enumerate(self.columns) if i not in kept]

    def _grid(self) -> Grid:
        ranks = [i if column.rank is None else column.rank for i, column in enumerate(self.columns)]
        right = [align == "right" for align in self.aligns()]
        return Grid([column.heading for column in self.columns], self.cells(), right, ranks)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from strop.report.markup import table

        return str(table(self, "table"))

    def markdown(self) -> str:
        """Return a GitHub table."""
        ruler = ["---:" if align == "right" else "---" for align in self.aligns()]
        lines = [[column.heading for column in self.columns], ruler, *self.cells()]
        for row, column in self.best:
            lines[row + 2][column] = f"**{lines[row + 2][column]}**"
        return "".join("| " + " | ".join(_pipe_safe(cell) for cell in line) + " |\n" for line in lines)

    def records(self) -> list[Record]:
        """Return the rows as records of raw values under the columns' keys, for strop.records.write_csv."""
        keys = [column.key for column in self.columns]
        return [{key: _value(cell) for key, cell in zip(keys, row, strict=True)} for row in self.rows]


def size_columns(sizes: Sequence[int]) -> list[Column]:
    """Return a column for each size; on a narrow screen the largest and the smallest stay longest."""
    ranks = rank_evenly(len(sizes))
    return [Column(str(n), number(n), str, "right", rank) for n, rank in zip(sizes, ranks, strict=True)]


def pivot(
    records: Iterable[Record],
    rows: str,
    columns: str,
    value: str,
    cell: Callable[[list[Any]], object] = lambda values: sum(values) / len(values),
    caption: str = "",
) -> Table:
    """Return a table: a row for each value of `rows`, a column for each of `columns`, in order of appearance.

    A cell is `cell` of the values found there, in the order of the records; without records it stays empty.
    """
    found: dict[object, dict[object, list[Any]]] = {}
    across: dict[object, None] = {}
    for record in records:
        across[record[columns]] = None
        found.setdefault(record[rows], {}).setdefault(record[columns], []).append(record[value])
    heads = [Column(rows, align="left"), *(Column(str(name), number(name), align="right") for name in across)]
    body = [[name, *(cell(line[c]) if c in line else None for c in across)] for name, line in found.items()]
    return Table(heads, body, caption)


def _value(cell: object) -> Value:
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell)


def _text(column: Column, value: object) -> str:
    if value is None:
        return MISSING
    return value if isinstance(value, str) else column.format(value)


def _natural(values: Iterable[object]) -> str:
    kinds = [value for value in values if value is not None]
    return "right" if kinds and all(isinstance(v, int | float) and not isinstance(v, bool) for v in kinds) else "left"


def _pipe_safe(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
