"""The command line. `strop.cli:main` is the entry point; each verb is a module here that defines `command`.

group.py     the lazily loaded group: suggestions for unknown words, errors in one line
extras.py    what each extra of the package brings
options.py   options that mean the same in every verb
output.py    tables, sentences and JSON on stdout, progress on stderr
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run `strop`."""
    try:
        from strop.cli.group import strop
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(f"strop: the command line needs {error.name}. Add it with: pip install 'strop[cli]'")
    strop.main(prog_name="strop")
