"""Records on disk: a record is a flat dict of str, int, float, bool and None, a file one JSON object a line.

Whole files are written to a temporary neighbour, flushed to the disk and renamed over the target, so a reader
sees the old file or the new one. Appending takes a lock, so several processes may share a file. A line counts
only with its newline: what a crash tore off is refused (`torn="raise"`) or dropped (`torn="drop"`), and cut
away before the next append. Numbers that JSON lacks are the strings "NaN", "Infinity" and "-Infinity", read
back as floats.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from strop.errors import ArgumentError, DamagedFileError, RecordsError
from strop.records.errors import explain_failures

Value = str | int | float | bool | None
Record = dict[str, Value]

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it replaces `path`, on any exception it is removed.

    It is an empty file whose permissions are those of any new file, and they stay, whoever writes it.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    with explain_failures(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        ordinary = temporary.stat().st_mode
    try:
        with explain_failures(target, unless_about_another=temporary):
            yield temporary
        with explain_failures(target):
            temporary.chmod(ordinary)  # safetensors makes a file of its own that only its owner may read
            _flush(temporary)
            os.replace(temporary, target)
            _flush(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a whole file atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a whole UTF-8 file atomically."""
    write_bytes(path, text.encode())


def write(path: str | os.PathLike[str], records: Iterable[Record]) -> None:
    """Write records as a whole JSONL file, replacing what was there."""
    write_bytes(path, _lines(records))


def append(path: str | os.PathLike[str], records: Iterable[Record]) -> None:
    """Append records to a JSONL file under a lock: all of them arrive, or none."""
    import fcntl  # POSIX only, and only appending needs it

    target, data = Path(path), _lines(records)
    with explain_failures(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            end = _end_of_last_line(file)
            file.truncate(end)
            try:
                _write_all(file, data)
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise


def read(path: str | os.PathLike[str], *, torn: Literal["raise", "drop"] = "raise") -> list[Record]:
    """Read a JSONL file; anything but whole lines of flat JSON objects is an error that names the line."""
    target = Path(path)
    with explain_failures(target):
        data = target.read_bytes()
    *lines, tail = data.split(b"\n")
    if tail and torn == "raise":
        raise DamagedFileError(
            f"{target} must end with a whole line, got a torn line {len(lines) + 1}. "
            'Read it with torn="drop" to go without that line.'
        )
    return [_parse(line, f"{target}, line {number}") for number, line in enumerate(lines, 1)]


def read_utf8(path: str | os.PathLike[str]) -> str:
    """Return a user's text, or say what is wrong with the file."""
    try:
        with explain_failures(Path(path)):
            return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} must be UTF-8 text, got other bytes. Convert it first.") from error


def write_csv(path: str | os.PathLike[str], records: Sequence[Record]) -> None:
    """Write records as CSV: columns in the order in which they first appear, None as an empty cell."""
    columns = list(dict.fromkeys(key for record in records for key in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({key: _to_cell(value) for key, value in record.items()})
    write_text(path, text.getvalue())


def read_csv(path: str | os.PathLike[str]) -> list[Record]:
    """Read CSV. A cell that looks like a number or a boolean becomes one (only JSONL keeps types exactly)."""
    target = Path(path)
    with explain_failures(target):
        text = target.read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text), strict=True))
    header, body = (rows[0], rows[1:]) if rows else ([], [])
    for number, row in enumerate(body, 2):
        if len(row) != len(header):
            raise DamagedFileError(f"{target}, row {number} must have {len(header)} cells, got {len(row)}.")
    return [{key: _from_cell(cell) for key, cell in zip(header, row, strict=True)} for row in body]


def real(value: object) -> float:
    """Return a value of a record that must be a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordsError(f"a record's value must be a number here, got {value!r}. The file may be of another kind.")
    return float(value)


def whole(value: object) -> int:
    """Return a value of a record that must be a whole number."""
    number = real(value)
    if not number.is_integer():
        raise RecordsError(f"a record's value must be a whole number here, got {value!r}. The file may be damaged.")
    return int(number)


def finite(value: object) -> object:
    """Return the value with every float that JSON lacks as None."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:  # a raw write may be short, on a nearly full disk for one
        view = view[file.write(view) or 0 :]


def _end_of_last_line(file: io.FileIO) -> int:
    """Position just after the last newline, looking backwards in blocks."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65536)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _lines(records: Iterable[Record]) -> bytes:
    return "".join(
        json.dumps(_checked(record), ensure_ascii=False, allow_nan=False) + "\n" for record in records
    ).encode()


def _checked(record: Record) -> Record:
    return {_checked_key(key): _checked_value(key, value) for key, value in record.items()}


def _checked_key(key: object) -> str:
    if isinstance(key, str):
        return key
    raise RecordsError(f"a record's keys must be strings, got {key!r}. Name the column.")


def _checked_value(key: str, value: object) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str) and value in _NOT_FINITE:
        raise RecordsError(f"record[{key!r}] must not be the word {value!r}, a number's name. Use float({value!r}).")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise RecordsError(
        f"record[{key!r}] must be str, int, float, bool or None, got {type(value).__name__}. "
        "Records are flat: use .item() for a scalar, one record for each element otherwise."
    )


def _parse(line: bytes, place: str) -> Record:
    try:
        record = json.loads(line)
    except ValueError as error:  # covers bad UTF-8 and bad JSON
        raise DamagedFileError(
            f"{place} must be a JSON object, got damaged text. Delete the line or the file."
        ) from error
    if not isinstance(record, dict):
        raise DamagedFileError(
            f"{place} must be a JSON object, got {type(record).__name__}. Delete the line or the file."
        )
    for key, value in record.items():
        if isinstance(value, list | dict):
            raise DamagedFileError(
                f"{place} must be flat, got a {type(value).__name__} in {key!r}. Is this a records file?"
            )
        if isinstance(value, str) and value in _NOT_FINITE:
            record[key] = _NOT_FINITE[value]
    return record


def _to_cell(value: Value) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _from_cell(cell: str) -> Value:
    if cell in ("", "true", "false"):
        return {"": None, "true": True, "false": False}[cell]
    for number in (int, float):
        try:
            return number(cell)
        except ValueError:
            continue
    return cell
