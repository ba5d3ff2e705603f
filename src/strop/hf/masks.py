"""Masks as transformers builds them for our two attention names, without an n×n tensor for long inputs.

transformers hands a mask to a custom attention only if a mask function is registered under the same name;
without one padding and causality are silently lost. Two names are registered, since models differ in what "no
mask" means:

    strop         models with an sdpa path. Plain causal input gets no mask, as sdpa's does: the attention function
                  then reads `is_causal` from the call or the module, exactly as transformers' own sdpa
                  function does.
    strop_eager   models without one (soft-capping, sinks). They get eager's additive mask, always; None means "see
                  everything".

From LAZY_FROM elements on, any mask is handed over as a `LazyMask`, which builds a block of rows when asked
(sliding windows at 8,192 tokens: 2 MB at a time instead of 64).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

LAZY_FROM = 1 << 22
"""Mask elements (query rows × keys) from which a mask is built lazily."""

PLACES = 64
"""Rows, evenly spaced, that are asked for their first key: closer together than the windows of models are wide."""

CHUNK = 32
"""Rows, out of those asked for, that are built at a time."""


class LazyMask:
    """A bool mask [B, 1, n_q, n_k] that exists one block of rows at a time."""

    def __init__(
        self, build: Callable[[int, int], Tensor], n_q: int, n_k: int, additive: torch.dtype | None = None
    ) -> None:
        self._build, self._additive = build, additive
        self.shape = (1, 1, n_q, n_k)
        self.ndim = 4

    @cached_property
    def first_keys(self) -> Tensor:
        """The first key that any of PLACES rows may see, [B]: past the padding on the left."""
        rows = torch.linspace(0, self.shape[-2] - 1, PLACES).long().tolist()
        seen = torch.cat([self.rows(row, row + 1) for row in rows], -2).flatten(1, -2).any(1)
        return seen.long().argmax(-1)

    def to(self, *_: Any, **__: Any) -> LazyMask:
        """Rows are built where they are wanted: accelerate, which moves every input, need not build them all."""
        return self

    @cached_property
    def _whole(self) -> Tensor:
        keep = self.rows(0, self.shape[-2])
        if self._additive is None:
            return keep
        return torch.zeros_like(keep, dtype=self._additive).masked_fill(~keep, torch.finfo(self._additive).min)

    def __getattr__(self, name: str) -> Any:
        """A model that computes with its mask (Doge) gets all of it, additive where transformers' own would be."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._whole, name)

    def __getitem__(self, index: Any) -> Tensor:
        return self._whole[index]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(cls, lambda mask: mask._whole, (tuple(args), kwargs or {}))
        return function(*args, **kwargs)

    def rows(self, start: int, stop: int) -> Tensor:
        """Return rows start..stop−1, True = may look."""
        return self._build(start, stop)

    def some(self, rows: Tensor) -> Tensor:
        """Return the given rows, building a few at a time."""
        parts = [self.rows(int(part[0]), int(part[-1]) + 1)[..., part - part[0], :] for part in rows.split(CHUNK)]
        return torch.cat(parts, -2)


def sdpa_like_mask(**arguments: Any) -> Tensor | LazyMask | None:
    """The mask of the name `strop`: None where sdpa's would be, else bool, lazily when large."""
    from transformers.masking_utils import sdpa_mask

    if not _large(arguments):
        return sdpa_mask(**arguments)
    return None if _skipped(arguments) else _lazy(arguments, None)


def eager_like_mask(**arguments: Any) -> Tensor | LazyMask | None:
    """The mask of the name `strop_eager`: additive, never skipped for causal input, lazily when large."""
    from transformers.masking_utils import eager_mask

    if not _large(arguments):
        return eager_mask(**arguments)
    additive = arguments.get("dtype", torch.float32)
    return None if _skipped(arguments | {"allow_is_causal_skip": False}) else _lazy(arguments, additive)


def joined(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """One mask from a bool or additive mask and an additive bias."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, -torch.inf)
    return mask + bias


def adds(mask: Tensor | LazyMask | None) -> bool:
    """Whether a mask adds something to visible logits, as a position bias does."""
    if not isinstance(mask, Tensor) or not mask.is_floating_point():
        return False
    return bool(((mask != 0) & (mask > torch.finfo(mask.dtype).min / 2)).any())


def mask_rows(mask: Tensor | LazyMask | None, causal: bool, rows: Tensor, n_k: int) -> Tensor | None:
    """The mask of some rows [R], as a tensor."""
    if causal:
        return torch.arange(n_k, device=rows.device) <= rows[:, None]
    return mask.some(rows) if isinstance(mask, LazyMask) else rows_of(mask, rows)


def rows_of(table: Tensor | None, rows: Tensor) -> Tensor | None:
    """Some rows of a mask or bias [.., n_q or 1, n_k]."""
    return table if table is None or table.shape[-2] == 1 else table[..., rows, :]


def triangle(query: Tensor, key: Tensor) -> Tensor:
    """The bool mask that torch's `is_causal` means: row i sees keys j ≤ i."""
    return torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()


def _large(arguments: dict[str, Any]) -> bool:
    return int(arguments["q_length"]) * int(arguments["kv_length"]) >= LAZY_FROM


def _skipped(arguments: dict[str, Any]) -> bool:
    """Whether transformers would leave this mask out. It decides before it builds; asked so, it builds nothing."""
    from transformers.masking_utils import sdpa_mask

    def nothing(batch: Tensor, head: Tensor, row: Tensor, key: Tensor) -> Tensor:
        return torch.ones((1, 1, 1, 1), dtype=torch.bool, device=row.device)

    mask = sdpa_mask(**(arguments | {"mask_function": nothing, "use_vmap": False}))
    return mask is None


def _lazy(arguments: dict[str, Any], additive: torch.dtype | None) -> LazyMask:
    from transformers.masking_utils import sdpa_mask

    fixed = arguments | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}

    def build(start: int, stop: int) -> Tensor:
        rows = {"q_length": stop - start, "q_offset": arguments.get("q_offset", 0) + start}
        mask = sdpa_mask(**(fixed | rows))
        assert mask is not None
        return mask

    return LazyMask(build, int(arguments["q_length"]), int(arguments["kv_length"]), additive)
