"""What the disk says, in one line written for a person."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strop.errors import RecordsError


@contextmanager
def explain_failures(path: Path, unless_about_another: Path | None = None) -> Iterator[None]:
    """Turn an OSError about path into a RecordsError that says what to do.

    Around code of others, `unless_about_another` is the file that they should be writing: an error that names any
    other file is theirs and passes unchanged.
    """
    try:
        yield
    except OSError as error:
        named = error.filename
        if unless_about_another is not None and named is not None and Path(named) != unless_about_another:
            raise
        raise RecordsError(_plain(path, error)) from error


def _plain(path: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{path} must fit on the disk, got: {error.strerror}. Free some space or choose another folder."
    if error.errno == errno.EISDIR:
        return f"{path} must be a file, got a folder. Check the path."
    if error.errno == errno.ENOENT:
        return f"{path} must exist, got nothing there. Check the path."
    reason = error.strerror or str(error)
    return f"{path} must be readable and writable, got: {reason}. Choose another folder or mend its permissions."
