"""Sweep over every model family of transformers: `make families`.

python -m sweep                 all of them, into docs/families.json and the tables of docs/families.md
python -m sweep llama t5        some of them, printed
"""

from __future__ import annotations

import argparse
import time

from sweep.models import model_types
from sweep.page import show, write
from sweep.workers import serve, sweep


def main() -> None:
    """Serve, print some rows, or fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_types", nargs="*", help="model types; none: all")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve()
        return
    names, rows, start = chosen.model_types or model_types(), [], time.monotonic()
    for row in sweep(names, chosen.workers):
        rows.append(row)
        print(f"{len(rows)}/{len(names)} {show(row)}", flush=True)
    print(f"{time.monotonic() - start:.0f} s, of the processors {sum(row['seconds'] for row in rows):.0f} s")
    if not chosen.model_types:
        write(rows)


if __name__ == "__main__":
    main()
