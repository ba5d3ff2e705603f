"""A table as lines of text that fit a width.

    natural   every cell on one line
    least     words wrapped at spaces: the longest word of a text, the longest cell of a column of numbers

Columns shrink from their natural width towards their least one. Where even that is too wide, columns are dropped, the
last first unless they say otherwise (`Column.rank`). The first columns, as many as it takes to tell the rows apart, are
never dropped; if they alone are too wide, long words continue on the next line. Nothing is cut.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

GAP = 2
"""Spaces between columns."""

NAME = 24
"""Letters up to which what identifies a row stays on one line."""

Style = Callable[[int, int, str], str]
"""style(row, column, text) → the text with what emphasises that cell; row −1 is the heading."""


@dataclass(frozen=True)
class Grid:
    """Headings and cells as text; `right` says which columns stand at the right, `ranks` which are dropped first."""

    headings: Sequence[str]
    cells: Sequence[Sequence[str]]
    right: Sequence[bool]
    ranks: Sequence[float]

    def natural(self, i: int) -> int:
        """Width of a column whose cells are on one line each."""
        return max(len(line[i]) for line in (self.headings, *self.cells))

    def least(self, i: int) -> int:
        """Width below which a column would break a word or a number, or a name that is no sentence."""
        cells = [row[i] for row in self.cells]
        whole = cells if self.right[i] else [word for cell in cells for word in cell.split()]
        least = max(map(len, [*whole, *self.headings[i].split()]), default=0)
        return max(least, min(self.natural(i), NAME)) if i < self.identifying else least

    @cached_property
    def identifying(self) -> int:
        """How many of the first columns tell the rows apart; the first one where none do."""
        for count in range(1, len(self.headings) + 1):
            if len({tuple(row[:count]) for row in self.cells}) == len(self.cells):
                return count
        return 1


def rank_evenly(count: int) -> list[float]:
    """Return ranks of columns that are sizes: the last and the first stay longest, then those between, evenly."""
    kept = list(dict.fromkeys([count - 1, 0]))
    while len(kept) < count:
        kept.append(max(range(count), key=lambda i: min(abs(i - j) for j in kept)))
    return [float(kept.index(i)) for i in range(count)]


def choose_columns(grid: Grid, width: int) -> list[int]:
    """Return the columns that fit."""
    kept = list(range(len(grid.headings)))
    spare = sorted(kept[grid.identifying :], key=lambda i: grid.ranks[i])
    while spare and _total([grid.least(i) for i in kept]) > width:
        kept.remove(spare.pop())
    return kept


def choose_widths(grid: Grid, columns: Sequence[int], width: int) -> list[int]:
    """Return the widths of these columns: natural, or shrunk evenly towards the least until they fit."""
    widths = [grid.natural(i) for i in columns]
    least = [grid.least(i) for i in columns]
    while (over := _total(widths) - width) > 0:
        room = [now - floor for now, floor in zip(widths, least, strict=True)]
        if not any(room):
            least = [min(floor, max(1, floor - over)) if floor == max(least) else floor for floor in least]
            continue  # one word is wider than the screen: it continues on the next line
        widest = max(range(len(columns)), key=lambda i: widths[i] if room[i] else 0)
        widths[widest] -= 1
    return widths


def lay_out(grid: Grid, width: int | None, style: Style = lambda _row, _column, text: text) -> list[str]:
    """Return the lines of a table; None is as wide as it needs to be."""
    columns = choose_columns(grid, width) if width else list(range(len(grid.headings)))
    widths = choose_widths(grid, columns, width) if width else [grid.natural(i) for i in columns]
    lines = _lines(-1, grid.headings, grid, columns, widths, style) if any(grid.headings) else []
    for i, row in enumerate(grid.cells):
        lines += _lines(i, row, grid, columns, widths, style)
    return lines


def wrap(text: str, width: int | None) -> str:
    """Break lines at spaces so that they fit; words stay whole, paths and commands among them.

    What follows an indented line is indented as it is, and under its second column where it has one.

    Examples:
        >>> print(wrap("  exact    four layers", 20))
          exact    four
                   layers
    """
    if width is None:
        return text
    whole = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
    lines = []
    for line in text.split("\n"):
        start = re.match(r" +(\S+( \S+)*  +)?", line)
        whole.subsequent_indent = " " * (start.end() if start else 0)
        lines += whole.wrap(line) or [""]
    return "\n".join(lines)


def _lines(
    row: int, cells: Sequence[str], grid: Grid, columns: Sequence[int], widths: Sequence[int], style: Style
) -> list[str]:
    parts = [textwrap.wrap(cells[i], width, break_on_hyphens=False) for i, width in zip(columns, widths, strict=True)]
    out = []
    for line in zip_longest(*parts, fillvalue=""):
        padded = []
        for i, text, width in zip(columns, line, widths, strict=True):
            space = " " * (width - len(text))
            shown = style(row, i, text) if text else text
            padded.append(space + shown if grid.right[i] else shown + space)
        out.append((" " * GAP).join(padded).rstrip())
    return out


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
