"""How large the tiles are: rows and keys of a tile, warps and stages of each kernel, by head size and dtype.

Chosen so that the bfloat16 kernels of head sizes up to 128 spill no register on any compiled target, and that each fits
the 99 kB of shared memory of consumer cards (`make compile-gpu` prints the table in docs/gpu.md). float32 has no tensor
cores, and a thread holds the whole head of its rows and keys: of the tiles that spill least the largest were taken.
Not chosen by time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Tiles(NamedTuple):
    """One kernel's tiles: rows × keys, and how many warps and pipeline stages work on them."""

    rows: int
    keys: int
    warps: int
    stages: int


_WIDTHS = (64, 128, 256)

_HALF = {
    "attend_blocks": (Tiles(64, 64, 4, 2), Tiles(64, 64, 4, 2), Tiles(64, 32, 8, 2)),
    "backward_of_rows": (Tiles(64, 32, 4, 2), Tiles(64, 32, 8, 2), Tiles(32, 32, 8, 1)),
    "backward_of_keys": (Tiles(32, 64, 4, 2), Tiles(32, 64, 8, 2), Tiles(32, 32, 8, 1)),
    "mend_blocks": (Tiles(16, 32, 4, 1),) * 3,
    "measure_pieces": (Tiles(16, 64, 4, 2), Tiles(16, 64, 4, 2), Tiles(16, 32, 4, 2)),
    "attend_pieces": (Tiles(16, 64, 4, 2), Tiles(16, 64, 4, 2), Tiles(16, 32, 4, 2)),
}
_SINGLE = {
    "attend_blocks": (Tiles(32, 32, 8, 1), Tiles(16, 16, 8, 1), Tiles(16, 16, 8, 1)),
    "backward_of_rows": (Tiles(32, 32, 8, 1), Tiles(16, 16, 8, 1), Tiles(16, 16, 8, 1)),
    "backward_of_keys": (Tiles(32, 32, 8, 1), Tiles(32, 32, 8, 1), Tiles(16, 16, 8, 1)),
    "mend_blocks": (Tiles(16, 16, 4, 1), Tiles(16, 16, 8, 1), Tiles(16, 16, 8, 1)),
    "measure_pieces": (Tiles(16, 32, 4, 1), Tiles(16, 32, 8, 1), Tiles(16, 32, 8, 1)),
    "attend_pieces": (Tiles(16, 32, 4, 1), Tiles(16, 16, 8, 1), Tiles(16, 16, 8, 1)),
}


_HALF_ON_ROCM = _HALF | {
    "backward_of_rows": (Tiles(64, 32, 4, 2), Tiles(64, 32, 8, 1), Tiles(32, 32, 8, 1)),
    "backward_of_keys": (Tiles(32, 64, 4, 1), Tiles(32, 32, 4, 1), Tiles(16, 32, 4, 1)),
}
_SINGLE_ON_ROCM = {
    kernel: tuple(tiles._replace(warps=max(4, tiles.warps // 2)) for tiles in row) for kernel, row in _SINGLE.items()
}
"""A warp has twice the lanes there."""


def find_tiles(kernel: str, width: int, itemsize: int, on_rocm: bool) -> Tiles:
    """Return the tiles of a kernel for head sizes up to `width`, of numbers of `itemsize` bytes."""
    single, half = (_SINGLE_ON_ROCM, _HALF_ON_ROCM) if on_rocm else (_SINGLE, _HALF)
    table = single if itemsize == 4 else half
    return next(tiles for most, tiles in zip(_WIDTHS, table[kernel], strict=True) if width <= most)


PROGRAMS = 256
"""Programs that keep a card busy: with fewer, the keys are cut into pieces."""

PIECE = 256
"""Keys of a piece at least."""

MOST_PIECES = 64


def count_pieces(query: Sequence[int], key: Sequence[int]) -> int:
    """Into how many pieces the keys are cut for query [B, H, n_q, d] and key [B, H_kv, n_k, d]; a power of two."""
    b, h, n_q, _ = query
    _, h_kv, n_k, _ = key
    rows = n_q * (h // max(1, h_kv))
    if rows > 64:
        return 1
    programs = b * h_kv * -(-rows // 16)
    most = min(MOST_PIECES, PROGRAMS // programs, n_k // PIECE)
    return 1 << max(0, most.bit_length() - 1)
