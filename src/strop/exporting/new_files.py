"""New files and folders: whole or not there at all, and never over something else."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strop._checks import require
from strop.errors import RecordsError
from strop.records.errors import explain_failures
from strop.records.files import atomic_path


def refuse_existing(out: Path) -> None:
    """Raise if there is something already."""
    rule = "out must be a new file or folder, since nothing is ever overwritten"
    require(not out.exists() and not out.is_symlink(), rule, f"{out}, which exists", "Choose another", RecordsError)


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """Yield a path to write to; what is there becomes `out` at the end of the block, unless something fails."""
    refuse_existing(out)
    with atomic_path(out) as temporary:
        yield temporary
        refuse_existing(out)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a folder to write to; it becomes `out` at the end of the block, unless something fails."""
    from safetensors import SafetensorError

    refuse_existing(out)
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(4)}.tmp")
    try:
        with explain_failures(out):
            temporary.mkdir(parents=True)
            yield temporary
            refuse_existing(out)
            os.rename(temporary, out)
    except SafetensorError as error:
        raise RecordsError(
            f"{out} must be writable, got: {error}. Free some space or choose another folder."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
