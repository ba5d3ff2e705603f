"""What a GGUF file says before its numbers: keys, and where each tensor is.

Lists, such as a vocabulary, are passed over: the package gguf reads them an element at a time, which takes long.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np

from strop._checks import require
from strop.errors import DamagedFileError

Array = np.ndarray[Any, Any]
Kind = gguf.GGMLQuantizationType

HEADER = struct.Struct("<4sIQQ")
"""Magic, version, number of tensors, number of keys."""

STRING, LIST = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_FLOATS = {Kind.F32: np.float32, Kind.F16: np.float16}


class TensorInGGUF(NamedTuple):
    """A tensor of a file: its shape [d_in, d_out] as the file has it, its format, and its rows of bytes or floats."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    data: Array


class Head(NamedTuple):
    """A file's keys but for lists, the bytes of all its keys, its tensors, and what they are aligned to."""

    keys: dict[str, Any]
    own: bytes
    tensors: dict[str, TensorInGGUF]
    alignment: int


def read_head(path: Path) -> Head:
    """Return what a file says; struct.error, ValueError, KeyError or OverflowError where it is damaged or cut off."""
    data = np.memmap(path, mode="r")
    read = _Cursor(data)
    _, _, count, known = read.take(HEADER.format)
    keys = {read.string(): read.value(read.take("<I")[0]) for _ in range(known)}
    own = data[HEADER.size : read.at].tobytes()
    infos = [read.info() for _ in range(count)]
    alignment = int(keys.get("general.alignment") or gguf.GGUF_DEFAULT_ALIGNMENT)
    start = read.at + -read.at % alignment
    found = [
        TensorInGGUF(name, shape, kind, _numbers(data, start + at, shape, kind)) for name, shape, kind, at in infos
    ]
    tensors = {tensor.name: tensor for tensor in found}
    once = len(keys) == known and len(tensors) == count
    require(once, f"{path} must name every key and tensor once", "a name that stands twice", error=DamagedFileError)
    return Head(keys, own, tensors, alignment)


class _Cursor:
    def __init__(self, data: Array) -> None:
        self.data, self.at = data.data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return found

    def string(self) -> str:
        (size,) = self.take("<Q")
        return str(self.take(f"<{size}s")[0], "utf-8")

    def value(self, kind: int) -> Any:
        """One value, or None for a list."""
        if kind == STRING:
            return self.string()
        if kind != LIST:
            return self.take(_SCALARS[kind])[0]
        inner, count = self.take("<IQ")
        if inner in _SCALARS:
            self.take(f"<{count * struct.calcsize(_SCALARS[inner])}x")
        else:
            for _ in range(count):
                self.value(inner)
        return None

    def info(self) -> tuple[str, tuple[int, ...], Kind, int]:
        name = self.string()
        (axes,) = self.take("<I")
        *shape, kind, at = self.take(f"<{axes}QIQ")
        return name, tuple(shape), Kind(kind), at


def _numbers(data: Array, at: int, shape: tuple[int, ...], kind: Kind) -> Array:
    rows = tuple(reversed(shape))
    if kind not in _FLOATS:
        rows = gguf.quants.quant_shape_to_byte_shape(rows, kind)
    return np.frombuffer(data, _FLOATS.get(kind, np.uint8), int(np.prod(rows)), at).reshape(rows)
