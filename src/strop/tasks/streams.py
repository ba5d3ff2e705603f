"""Streams of randomness that have nothing in common unless their names are equal."""

from __future__ import annotations

import hashlib

from torch import Generator


def stream(*names: str | int) -> Generator:
    """Return the generator of one stream: the same names always give the same draws."""
    key = hashlib.sha256("|".join(map(str, names)).encode()).digest()
    return Generator().manual_seed(int.from_bytes(key[:7], "big"))
