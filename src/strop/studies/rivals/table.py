"""The board as a table, from its records alone, so that a kept file of records shows it again."""

from __future__ import annotations

from collections.abc import Iterable

from strop._checks import require
from strop.evaluation.paired import holm
from strop.evaluation.verdict import SIGNIFICANT, signed
from strop.records import Record, real
from strop.report.format import MISSING, duration, fixed, number, percent
from strop.report.tables import Column, Table

UP, DOWN = "▲", "▼"


def correct(records: Iterable[Record]) -> list[Record]:
    """Return the records, the last of every rival and column, with p-values corrected over all of them."""
    rows = list({(row["rival"], row["column"]): dict(row) for row in records}.values())
    models = sorted({str(row["model"]) for row in rows})
    require(len(models) <= 1, "records must be of one model", ", ".join(models), "Show each model's apart")
    tested = [row for row in rows if row["p"] is not None]
    for row, p in zip(tested, holm([real(row["p"]) for row in tested]), strict=True):
        row["p_holm"] = p
    return rows


def tabulate_rivals(records: Iterable[Record]) -> Table:
    """Return a line for every rival; ▲ and ▼ are significantly better and worse than the untouched model."""
    lines: dict[str, dict[str, Record]] = {}
    for row in correct(records):
        lines.setdefault(str(row["rival"]), {})[str(row["column"])] = row
    names = list(dict.fromkeys(name for line in lines.values() for name in line))
    base = next(iter(lines.values()), {})
    columns = [
        Column("rival"),
        *(Column(name, _head(name), align="right") for name in names),
        Column("bakes"),
        Column("note"),
    ]
    body = []
    for rival, line in lines.items():
        any_row = next(iter(line.values()))
        bakes = MISSING if any_row["bakes"] is None else "yes" if any_row["bakes"] else "no"
        shown = [_show(name, line.get(name), base.get(name)) for name in names]
        body.append([rival, *shown, bakes, any_row["note"] or ""])
    caption = "Exact answers and scores, %, and prose, change in nats a token. ▲ ▼: p < 0.05 after Holm's correction."
    return Table(columns, body, caption)


def _show(name: str, row: Record | None, base: Record | None) -> str:
    if row is None or row["value"] is None:
        return MISSING
    value = real(row["value"])
    if name == "numbers":
        return number(int(value))
    if name == "seconds":
        return duration(value) if value else MISSING
    if name == "cost":
        return f"{fixed(value, 2)} ×"
    if name.startswith("prose"):
        if row["low"] is None:
            return fixed(value, 4)
        return f"{signed(value)} ± {fixed((real(row['high']) - value) / 1.96, 4)}"
    p = row["p_holm"]
    mark = "" if p is None or real(p) >= SIGNIFICANT else UP if base and value > real(base["value"]) else DOWN
    return f"{percent(value)}{mark} ({percent(real(row['low']), 0)}–{percent(real(row['high']), 0)})"


def _head(name: str) -> str:
    kind, _, size = name.rpartition(" ")
    units = {"look-up": "pairs", "counting": "words", "prose": "tokens"}
    if not size.isdigit():
        return {"numbers": "numbers learned", "seconds": "learned in"}.get(name, name)
    return f"{kind}, {int(size):,} {units.get(kind, 'tokens')}"
