"""Pieces of HTML: paragraphs, code and tables. Everything that comes in is text and is escaped."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from strop.report.tables import Table

DENSE = 9  # a table with more columns is set smaller
WORDY = 16  # a first column with a longer cell may break its lines: it stays in sight and must leave room for others


def paragraphs(text: str) -> Markup:
    """Return text as paragraphs, parted at blank lines."""
    parts = re.split(r"\n\s*\n", text.strip())
    return Markup("\n").join(Markup("<p>{}</p>").format(line(part)) for part in parts)


def line(text: str) -> Markup:
    """Return text with `code` set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def table(content: Table, name: str, *, sortable: bool = False) -> Markup:
    """Return a table with this element id. Cells carry their raw value for sorting."""
    aligns = content.aligns()
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_class(align), column.heading)
        for align, column in zip(aligns, content.columns, strict=True)
    )
    body = Markup("").join(
        Markup("<tr>{}</tr>\n").format(
            Markup("").join(_cell(content, i, j, aligns[j], text) for j, text in enumerate(row))
        )
        for i, row in enumerate(content.cells())
    )
    caption = Markup('<p class="caption" id="{}-caption">{}</p>\n').format(name, line(content.caption))
    return Markup("{}<div{}><table{}><thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>").format(
        caption if content.caption else "",
        _class("scroll", "dense" if len(content.columns) > DENSE else ""),
        _table_attributes(content, name, sortable),
        head,
        body,
    )


def _table_attributes(content: Table, name: str, sortable: bool) -> Markup:
    label = Markup(' aria-labelledby="{}-caption"').format(name) if content.caption else Markup("")
    wordy = any(len(row[0]) > WORDY for row in content.cells())
    kind = _class("wordy" if wordy else "")
    return Markup(' id="{}"{}{}{}').format(name, kind, label, Markup(" data-sortable") if sortable else "")


def _cell(content: Table, row: int, column: int, align: str, text: str) -> Markup:
    value = content.rows[row][column]
    raw = "" if isinstance(value, str) else Markup(' data-value="{}"').format("" if value is None else value)
    kind = _class(align, "best" if (row, column) in content.best else "")
    mean, sign, deviation = text.partition(" ± ")
    beside = Markup("<small>{}{}</small>").format(sign, deviation) if sign else ""
    return Markup("<td{}{}>{}{}</td>").format(kind, raw, mean, beside)


def _class(*names: str) -> Markup:
    """Return a class attribute; `left` needs none."""
    chosen = [name for name in names if name and name != "left"]
    return Markup(' class="{}"').format(" ".join(chosen)) if chosen else Markup("")
