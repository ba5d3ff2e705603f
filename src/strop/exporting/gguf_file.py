"""A GGUF file: read with the package gguf, and written again with other tensors and more keys.

What is not changed is copied byte for byte: every key, the order and names of tensors, their numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf

from strop._checks import require
from strop.errors import DamagedFileError, RecordsError
from strop.exporting.gguf_blocks import Stored
from strop.records.errors import explain_failures

NEWEST = 3
"""The last version of the format that is known here."""

_HEADER = struct.Struct("<4sIQQ")  # magic, version, tensors, keys
_STRING = 8


class GGUFFile:
    """A GGUF file that can be sharpened: whole, of a known version, in one piece, and not sharpened yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_start(path)
        try:
            self.reader: Any = gguf.GGUFReader(path)
        except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
            raise DamagedFileError(
                f"{path} must be a whole GGUF file, got a damaged or truncated one ({error}). Download it again."
            ) from error
        self.tensors: dict[str, Any] = {tensor.name: tensor for tensor in self.reader.tensors}
        split = self.key("split.count")
        remedy = "Join its parts first: llama-gguf-split --merge"
        require((split or 0) < 2, f"{path} must be in one piece", f"one of {split} parts", remedy, RecordsError)
        edge = self.key("strop.edge")
        remedy = "Export onto the file that it was made from"
        require(edge is None, f"{path} must not be sharpened yet", edge, remedy, RecordsError)

    def key(self, name: str) -> Any:
        """Return the value of a metadata key, or None."""
        field = self.reader.fields.get(name)
        return None if field is None else field.contents()

    @property
    def architecture(self) -> str:
        """What the file calls its architecture."""
        return str(self.key("general.architecture"))

    def write(self, path: Path, changed: Mapping[str, Stored], keys: Mapping[str, str]) -> None:
        """Write the file with other numbers in some tensors, and with further keys."""
        stored = {t.name: changed.get(t.name) or Stored(t.data, t.tensor_type, 0.0) for t in self.reader.tensors}
        with open(path, "wb") as out:
            out.write(self._head(stored, keys))
            for one in stored.values():
                _pad(out, self.reader.alignment)
                out.write(one.data.tobytes())
            _pad(out, self.reader.alignment)

    def _head(self, stored: Mapping[str, Stored], keys: Mapping[str, str]) -> bytes:
        """Everything before the tensors' numbers."""
        magic, version, count, known = _HEADER.unpack(self.reader.data[: _HEADER.size].tobytes())
        own: bytes = self.reader.data[_HEADER.size : self.reader.tensors[0].field.offset].tobytes()
        more = b"".join(_string(name) + struct.pack("<I", _STRING) + _string(value) for name, value in keys.items())
        infos, offset = [], 0
        for tensor in self.reader.tensors:
            one = stored[tensor.name]
            shape = [int(size) for size in tensor.shape]
            infos.append(_string(tensor.name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, one.kind, offset))
            offset += one.data.nbytes + -one.data.nbytes % int(self.reader.alignment)
        return _HEADER.pack(magic, version, count, known + len(keys)) + own + more + b"".join(infos)


def _check_start(path: Path) -> None:
    """Raise for what is no GGUF file of a version that is known, in this machine's order of bytes."""
    with explain_failures(path), open(path, "rb") as file:
        start = file.read(_HEADER.size)
    require(start[:4] == b"GGUF", f"{path} must be a GGUF file", "another kind of file", error=RecordsError)
    if len(start) < _HEADER.size:
        raise DamagedFileError(f"{path} must be a whole GGUF file, got {len(start)} bytes. Download it again.")
    version = int(_HEADER.unpack(start)[1])
    swapped = version & 0xFFFF == 0
    require(not swapped, f"{path} must be little-endian", "a big-endian file", error=RecordsError)
    rule = f"{path} must be of GGUF's version 2 or {NEWEST}"
    require(2 <= version <= NEWEST, rule, f"version {version}", "Update strop, or convert the file", RecordsError)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _pad(out: Any, alignment: int) -> None:
    out.write(b"\0" * (-out.tell() % int(alignment)))
