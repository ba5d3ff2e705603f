"""Tables that a benchmark puts between two marks of a page of the documentation."""

from __future__ import annotations

from pathlib import Path

from strop.records import write_text

END = "<!-- measured: end -->"


def put_table(page: Path, command: str, table: str) -> None:
    """Print a table and replace the one of a page that names the command, where there is one."""
    print(table)
    start = f"<!-- measured: start ({command}) -->"
    if not page.exists() or start not in page.read_text():
        return
    before, rest = page.read_text().split(start)
    write_text(page, f"{before}{start}\n{table}\n{END}{rest.split(END, 1)[1]}")
