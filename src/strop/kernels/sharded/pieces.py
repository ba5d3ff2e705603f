"""Which of our rows see which keys of a visiting shard, and by which mask.

A shard is a few stretches of the sequence. A stretch of our rows that begins at position a, and one of the visitor's
keys that begins at c, make a *piece*. By positions, row i sees key j where c + j ≤ a + i + diagonal, so that a causal
mask is in every piece a triangle again, all, or nothing: the kernels for one process run it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from strop.kernels.mask import LazyMask, Mask
from strop.kernels.shards import LocalShard, Span

TALL = 1024
"""Rows of a piece under a mask that exists a few rows at a time."""


class Piece(NamedTuple):
    """Some of our rows, some of a visitor's keys, and the mask between them."""

    rows: slice
    keys: slice
    mask: Mask


def cut_pieces(shard: LocalShard, owner: int, mask: Mask, n_q: int) -> Iterator[Piece]:
    """Yield the pieces of our rows and a rank's keys, without those in which no row sees a key.

    `mask` is of our rows and of the keys of the whole sequence; its diagonal counts positions.
    """
    for a, rows in _stretches(shard.spans if mask.diagonal is not None else ((0, n_q),), mask):
        for c, keys in _stretches(shard.shards.spans[owner]):
            height, width = rows.stop - rows.start, keys.stop - keys.start
            diagonal = None if mask.diagonal is None else mask.diagonal + a - c
            if not height or not width or (diagonal is not None and diagonal + height <= 0):
                continue
            if diagonal is not None and diagonal >= width - 1:
                diagonal = None
            seen = replace(mask.rows(rows.start, rows.stop), diagonal=None).keys(slice(c, c + width))
            yield Piece(rows, keys, replace(seen, diagonal=diagonal))


def _stretches(spans: tuple[Span, ...], mask: Mask | None = None) -> Iterator[tuple[int, slice]]:
    """Yield the first position of every stretch, and where it lies in its shard."""
    at = 0
    for start, end in spans:
        tall = TALL if isinstance(mask, LazyMask) else max(1, end - start)
        for first in range(start, end, tall):
            last = min(first + tall, end)
            yield first, slice(at + first - start, at + last - start)
        at += end - start
