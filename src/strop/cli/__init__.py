"""The command line. `strop.cli:main` is the entry point; each verb is a module here that defines `command`.

group.py       the lazily loaded group: suggestions for unknown words, errors in plain words, exit codes
options.py     options that mean the same in every verb, and checks before a model is opened
completion.py  what a shell offers for an unfinished word
output.py      tables, sentences and JSON on stdout, progress on stderr
kept.py        what stays after Ctrl-C
diagnosis.py   what `strop doctor` says, for which torch is enough
"""

from __future__ import annotations

import json
import shutil
import sys


def main() -> None:
    """Run `strop`."""
    try:
        from strop.cli.group import strop
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        _do_without_click()
    else:
        strop.main(prog_name="strop")


def _do_without_click() -> None:
    """`strop doctor` for who has the core alone; any other verb says what it lacks."""
    if sys.argv[1:2] != ["doctor"]:
        from strop._extras import remedy

        sys.exit(f"strop: the command line needs click. {remedy('click')}\nWhat else is missing: strop doctor")
    from strop.cli.diagnosis import inspect_installation, tabulate

    facts, lacking = inspect_installation()
    if "--json" in sys.argv:
        shown = json.dumps({**facts, "missing": lacking})
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        shown = "\n\n".join(table.text(width) for table in tabulate(facts, lacking))
    sys.stdout.write(f"{shown}\n")
