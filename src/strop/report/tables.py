"""One table for every place: the terminal (rich), HTML, Markdown and CSV.

table = Table.of(records, [Column("rule"), Column("accuracy", "accuracy, %", percent)])
table = pivot(records, rows="rule", columns="n", value="accuracy", cell=lambda v: mean_sd(v, scale=100))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from strop.records import Record, Value
from strop.report.format import MISSING, number

if TYPE_CHECKING:
    import rich.table


@dataclass(frozen=True)
class Column:
    """A column: the record's key, its heading, how a value is written, where it stands."""

    key: str
    title: str | None = None
    format: Callable[[Any], str] = number
    align: Literal["left", "right"] | None = None

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
        lines = [[column.heading for column in self.columns], *self.cells()]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        sides = [str.rjust if align == "right" else str.ljust for align in self.aligns()]
        rows = [
            "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True))
            for line in lines
        ]
        return "\n".join(row.rstrip() for row in ([self.caption] if self.caption else []) + rows)

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

    def rich(self) -> rich.table.Table:
        """Return the table for the terminal."""
        from rich import box, table
        from rich.text import Text

        headed = any(column.heading for column in self.columns)
        out = table.Table(
            title=Text(self.caption) if self.caption else None,
            box=box.SIMPLE_HEAD,
            show_header=headed,
            title_style="bold",
            title_justify="left",
        )
        for column, align in zip(self.columns, self.aligns(), strict=True):
            out.add_column(
                Text(column.heading),
                justify="right" if align == "right" else "left",
                no_wrap=align == "right",
            )
        for i, row in enumerate(self.cells()):
            out.add_row(*(Text(cell, style="bold green" if (i, j) in self.best else "") for j, cell in enumerate(row)))
        return out


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
