"""Keys that a sparse model chooses for each row, as a mask: the same that the model builds for its own attention.

Such a model scores its keys by an indexer and hands the best to the attention that it calls, as numbers of keys (those
with DeepSeek's sparse attention) or of blocks of keys (MiniMax M3). For eager and sdpa it makes a mask of them itself;
for any other name it leaves that to the attention.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from strop._checks import require
from strop._types import Keep
from strop.errors import UnsupportedError

UNKNOWN = ("cache",)
"""Keywords of paged attention, which change which keys are seen and so must not be dropped."""


def read_choice(module: nn.Module, others: dict[str, Any], n_heads: int, n_k: int) -> Keep | None:
    """Return the mask of the keys that a call's remaining keywords choose; None where they choose none."""
    wrong = [name for name in UNKNOWN if others.get(name) is not None]
    _check(module, not wrong, f"{wrong} in its call")
    indices, blocks = others.get("indices"), others.get("block_indices")
    if indices is not None:
        return keep_keys(indices, n_k)[:, None]
    if blocks is None:
        return None
    size = getattr(getattr(module, "indexer", None), "block_size", None)
    _check(module, size is not None, "block_indices in its call and no indexer.block_size")
    assert size is not None
    return keep_blocks(blocks, size, n_k).repeat_interleave(n_heads // blocks.shape[1], dim=1)


def keep_keys(indices: Tensor, n_k: int) -> Keep:
    """The keys that indices [..., k] name, as a mask [..., n_k]; negative ones name none."""
    nothing = indices.new_zeros((*indices.shape[:-1], n_k + 1), dtype=torch.bool)
    named = indices.long().masked_fill(indices < 0, n_k)
    return nothing.scatter(-1, named, True)[..., :n_k]


def keep_blocks(blocks: Tensor, size: int, n_k: int) -> Keep:
    """The keys of the blocks that blocks [..., k] name, as a mask [..., n_k]; negative ones name none."""
    return keep_keys(blocks, -(-n_k // size)).repeat_interleave(size, dim=-1)[..., :n_k]


def _check(module: nn.Module, fine: bool, got: str) -> None:
    rule = f"{type(module).__name__} must say which keys it attends to by a mask or by an indexer"
    require(fine, rule, got, error=UnsupportedError)
