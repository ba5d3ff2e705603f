"""A GGUF file that is to be sharpened: read, and written again with other numbers in some tensors and more keys.

What is not changed is copied byte for byte: every key, the order and names of tensors, their numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strop._checks import require
from strop.errors import DamagedFileError, RecordsError
from strop.exporting.gguf_blocks import Stored
from strop.pretrained.gguf_head import HEADER, STRING, read_head
from strop.records.errors import explain_failures

NEWEST = 3
"""The last version of the format that is known here."""


class GGUFFile:
    """A GGUF file that can be sharpened: whole, of a known version, in one piece, and not sharpened yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = _read_version(path)
        try:
            self.head = read_head(path)
        except (struct.error, ValueError, KeyError, OverflowError, MemoryError) as error:
            rule = f"{path} must be a whole GGUF file"
            raise DamagedFileError(f"{rule}, got a damaged or truncated one. Download it again.") from error
        self.tensors = self.head.tensors
        split = self.head.keys.get("split.count") or 0
        remedy = "Join its parts first: llama-gguf-split --merge"
        require(split < 2, f"{path} must be in one piece", f"one of {split} parts", remedy, RecordsError)
        edge = self.head.keys.get("strop.edge")
        remedy = "Export onto the file that it was made from"
        require(edge is None, f"{path} must not be sharpened yet", edge, remedy, RecordsError)

    @property
    def architecture(self) -> str:
        """What the file calls its architecture."""
        return str(self.head.keys.get("general.architecture"))

    def write(self, path: Path, changed: Mapping[str, Stored], keys: Mapping[str, str]) -> None:
        """Write the file with other numbers in some tensors, and with further keys."""
        stored = {name: changed.get(name) or Stored(one.data, one.kind, 0.0) for name, one in self.tensors.items()}
        with open(path, "wb") as out:
            out.write(self._start(stored, keys))
            for one in stored.values():
                _pad(out, self.head.alignment)
                out.write(one.data.tobytes())
            _pad(out, self.head.alignment)

    def _start(self, stored: Mapping[str, Stored], keys: Mapping[str, str]) -> bytes:
        """Everything before the tensors' numbers."""
        more = b"".join(_string(name) + struct.pack("<I", STRING) + _string(value) for name, value in keys.items())
        infos, offset = [], 0
        for name, one in stored.items():
            shape = self.tensors[name].shape
            infos.append(_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, one.kind, offset))
            offset += one.data.nbytes + -one.data.nbytes % self.head.alignment
        count = len(self.head.keys) + len(keys)
        return HEADER.pack(b"GGUF", self.version, len(stored), count) + self.head.own + more + b"".join(infos)


def _read_version(path: Path) -> int:
    """Return the version of a GGUF file; raise for one that is not known, or not in this machine's order of bytes."""
    with explain_failures(path), open(path, "rb") as file:
        start = file.read(HEADER.size)
    require(start[:4] == b"GGUF", f"{path} must be a GGUF file", "another kind of file", error=RecordsError)
    if len(start) < HEADER.size:
        raise DamagedFileError(f"{path} must be a whole GGUF file, got {len(start)} bytes. Download it again.")
    version = int(HEADER.unpack(start)[1])
    swapped = version & 0xFFFF == 0
    require(not swapped, f"{path} must be little-endian", "a big-endian file", error=RecordsError)
    rule = f"{path} must be of GGUF's version 2 or {NEWEST}"
    require(2 <= version <= NEWEST, rule, f"version {version}", "Update strop, or convert the file", RecordsError)
    return version


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _pad(out: Any, alignment: int) -> None:
    out.write(b"\0" * (-out.tell() % int(alignment)))
