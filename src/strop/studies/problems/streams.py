"""Streams of randomness that have nothing in common unless their names are equal."""

from __future__ import annotations

import hashlib

from torch import Generator


def stream(*names: str | int) -> Generator:
    """Return the generator of one stream: the same names always give the same draws.

    Args:
        names: words and numbers that say what is drawn, such as the purpose, the size and the seed.

    Examples:
        >>> import torch
        >>> from strop.studies.problems import stream
        >>> draws = [torch.rand(1, generator=stream("test", 64, seed)).item() for seed in (0, 0, 1)]
        >>> draws[0] == draws[1], draws[0] == draws[2]
        (True, False)
    """
    key = hashlib.sha256("|".join(map(str, names)).encode()).digest()
    return Generator().manual_seed(int.from_bytes(key[:7], "big"))
