"""Masks as transformers builds them for our two attention names, without an n×n tensor for long inputs.

transformers hands a mask to a custom attention only if a mask function is registered under the same name;
without one padding and causality are silently lost. Two names are registered, since models differ in what "no
mask" means:

    strop         models with an sdpa path. Plain causal input gets no mask, as sdpa's does: the attention function
                  then reads `is_causal` from the call or the module, exactly as transformers' own sdpa
                  function does.
    strop_eager   models without one (soft-capping, sinks). They get eager's additive mask, always; None means "see
                  everything".

From LAZY_FROM elements on, any mask is handed over as a `LazyMask` inside a `MaskTensor`, which builds a block of rows
when asked (sliding windows at 8,192 tokens: 2 MB at a time instead of 64).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from strop._checks import require
from strop.errors import UnsupportedError
from strop.kernels import LazyMask
from strop.kernels.shards import LocalShard, shard_here

LAZY_FROM = 1 << 22
"""Mask elements (query rows × keys) from which a mask is built lazily."""


class MaskTensor:
    """A lazy mask in the guise of the tensor [1, 1, n_q, n_k] that transformers hands from its masks to our attention.

    A model that computes with its mask (Doge) gets all of it, additive where transformers' own would be.
    """

    def __init__(self, mask: LazyMask, n_k: int, additive: torch.dtype | None = None) -> None:
        self.mask, self._additive = mask, additive
        self._moved: dict[torch.device, MaskTensor] = {}
        self.shape = (1, 1, mask.n_q, n_k)
        self.ndim = 4

    def to(self, device: Any = None, *_: Any, **__: Any) -> MaskTensor:
        """Have rows built for a device, one mask for each: accelerate, which moves every input, builds none of them."""
        if not isinstance(device, str | int | torch.device):
            return self
        place, build = torch.device(device), self.mask.build
        if place not in self._moved:
            moved = replace(self.mask, build=lambda start, stop: build(start, stop).to(place))
            self._moved[place] = MaskTensor(moved, self.shape[-1], self._additive)
        return self._moved[place]

    @cached_property
    def _whole(self) -> Tensor:
        keep = self.mask.build(0, self.mask.n_q)
        if self._additive is None:
            return keep
        return torch.zeros_like(keep, dtype=self._additive).masked_fill(~keep, torch.finfo(self._additive).min)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._whole, name)

    def __getitem__(self, index: Any) -> Tensor:
        return self._whole[index]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(cls, lambda mask: mask._whole, (tuple(args), kwargs or {}))
        return function(*args, **kwargs)


def sdpa_like_mask(**arguments: Any) -> Tensor | MaskTensor | None:
    """The mask of the name `strop`: None where sdpa's would be, else bool, lazily when large."""
    from transformers.masking_utils import sdpa_mask

    shard = shard_here()
    if shard is not None:
        return _sharded(arguments, shard, table=False)
    if not _large(arguments):
        return sdpa_mask(**arguments)
    return None if _skipped(arguments) else _lazy(arguments, None)


def eager_like_mask(**arguments: Any) -> Tensor | MaskTensor | None:
    """The mask of the name `strop_eager`: additive, never skipped for causal input, lazily when large."""
    from transformers.masking_utils import eager_mask

    shard = shard_here()
    if shard is not None:
        return _sharded(arguments, shard, table=True)
    if not _large(arguments):
        return eager_mask(**arguments)
    additive = arguments.get("dtype", torch.float32)
    return None if _skipped(arguments | {"allow_is_causal_skip": False}) else _lazy(arguments, additive)


def _large(arguments: dict[str, Any]) -> bool:
    return int(arguments["q_length"]) * int(arguments["kv_length"]) >= LAZY_FROM


def _skipped(arguments: dict[str, Any]) -> bool:
    """Whether transformers would leave this mask out. It decides before it builds; asked so, it builds nothing."""
    from transformers.masking_utils import sdpa_mask

    def nothing(batch: Tensor, head: Tensor, row: Tensor, key: Tensor) -> Tensor:
        return torch.ones((1, 1, 1, 1), dtype=torch.bool, device=row.device)

    mask = sdpa_mask(**(arguments | {"mask_function": nothing, "use_vmap": False}))
    return mask is None


def _lazy(arguments: dict[str, Any], additive: torch.dtype | None) -> MaskTensor:
    from transformers.masking_utils import sdpa_mask

    fixed = arguments | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}

    def build(start: int, stop: int) -> Tensor:
        rows = {"q_length": stop - start, "q_offset": arguments.get("q_offset", 0) + start}
        mask = sdpa_mask(**(fixed | rows))
        assert mask is not None
        return mask

    mask = LazyMask(build=build, n_q=int(arguments["q_length"]))
    return MaskTensor(mask, int(arguments["kv_length"]), additive)


def _sharded(arguments: dict[str, Any], shard: LocalShard, table: bool) -> Tensor | None:
    """The mask of this rank's rows and the keys of all ranks.

    transformers takes a jump in the position ids for the start of another text. Under `sharded` it is the next stretch
    of the same one, so the packed texts that it saw are not asked for; the rule itself, causal or a window, goes by
    positions in the whole sequence.
    """
    from transformers.masking_utils import sdpa_mask

    padding = arguments.get("attention_mask")
    whole = padding is None or bool(padding.all())
    remedy = "Leave out attention_mask, and give position_ids"
    require(whole, "a model over ranks must read text without padding", "a mask with padding", remedy, UnsupportedError)
    cached = int(arguments["q_length"]) != int(arguments["kv_length"])
    require(not cached, "a model over ranks must run without a cache", "keys of earlier calls", error=UnsupportedError)
    rule = _without_packing(arguments["mask_function"])
    if rule.__name__ == "causal_mask_function" and not table:
        return None
    positions = shard.positions

    def by_position(batch: Tensor, head: Tensor, row: Tensor, key: Tensor) -> Tensor:
        seen: Tensor = rule(batch, head, positions.to(row.device)[row], key)
        return seen

    sizes = {"q_length": len(positions), "kv_length": shard.shards.n, "q_offset": 0, "kv_offset": 0}
    fixed = {"mask_function": by_position, "attention_mask": None, "allow_is_causal_skip": False}
    return sdpa_mask(**(arguments | sizes | fixed | {"allow_is_bidirectional_skip": False}))


def _without_packing(rule: Any) -> Any:
    """The rule without the packed texts that transformers joined to it, as its `and_masks` does."""
    parts = [cell.cell_contents for cell in rule.__closure__ or () if isinstance(cell.cell_contents, tuple)]
    if rule.__qualname__.startswith("and_masks.") and parts and len(parts[0]) == 2:
        first, second = parts[0]
        if second.__qualname__.startswith("packed_sequence_mask_function."):
            return first
    return rule
