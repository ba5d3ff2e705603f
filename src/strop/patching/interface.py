"""The way into transformers: an attention and a mask function under names of our own (masks.py says why two).

`import strop` registers both names (strop/_transformers.py), so that a model may be opened with
`attn_implementation="strop"`: it then runs plain softmax by strop's kernels until a block changes that.

While a model is patched its configs say `strop` or `strop_eager`; models that share a config object are
counted, so that one thread's exit does not take the patch from another. A model that shares the config but
has no frame gets plain softmax. A copy of such a config says its own name again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from strop.kernels import Mask, Request
from strop.kernels.fit import fit_tensors
from strop.kernels.shards import shard_here
from strop.patching.frames import PLAIN, answer
from strop.patching.masks import MaskTensor, eager_like_mask, sdpa_like_mask
from strop.patching.sparse import read_choice

_LOCK = threading.RLock()
_USERS: dict[int, tuple[Any, str | None, int]] = {}
"""id of a config → (the config, its own attention name, how many frames use it)."""


class Name(str):
    """One of our names in a config, for a while: a deep copy or a pickle has the config's own."""

    own: str | None

    @classmethod
    def over(cls, own: str | None, name: str) -> Name:
        """Return our name in the place of a config's own."""
        made = cls(name)
        made.own = own
        return made

    def __deepcopy__(self, memo: object) -> str | None:
        return self.own

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (type(None), ()) if self.own is None else (str, (self.own,))


@contextmanager
def switch(models: Iterable[nn.Module]) -> Iterator[None]:
    """Make every given transformers model call our attention for the length of the block."""
    taken, named = [], [pair for model in models for pair in _names(model)]
    try:
        for config, name in named:
            _take(config, name)
            taken.append(config)
        yield
    finally:
        for config in reversed(taken):
            _release(config)


def attention_function(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | MaskTensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What models call under the name `strop`; without a mask, `is_causal` decides, as in transformers' sdpa."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    shard = shard_here()
    causal = bool(causal) and attention_mask is None and (query.shape[2] > 1 or shard is not None)
    query, key, value = fit_tensors(query, key, value, enable_gqa=True)
    n_k = key.shape[2] if shard is None else shard.shards.n
    mask = _read(attention_mask, causal, query, n_k).add_bias(position_bias)
    chosen = read_choice(module, others, query.shape[1], n_k)
    mask = mask if chosen is None else mask.narrow(chosen)
    scale = float(query.shape[-1] ** -0.5) if scaling is None else float(scaling)
    request = Request(query, key, value, mask, scale, PLAIN, softcap, dropout, sink=s_aux, shard=shard)
    return answer(module, request).transpose(1, 2).contiguous(), None


def eager_attention_function(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | MaskTensor | None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What models call under the name `strop_eager`; without a mask every key is seen."""
    return attention_function(module, query, key, value, attention_mask, **(others | {"is_causal": False}))


def _read(mask: Tensor | MaskTensor | None, causal: bool, query: Tensor, n_k: int) -> Mask:
    return mask.mask if isinstance(mask, MaskTensor) else Mask.read(mask, causal, query, n_k)


def register() -> None:
    """Tell transformers both names; a transformers too old for such names is left alone."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError:
        return
    AttentionInterface.register("strop", attention_function)
    AttentionMaskInterface.register("strop", sdpa_like_mask)
    AttentionInterface.register("strop_eager", eager_attention_function)
    AttentionMaskInterface.register("strop_eager", eager_like_mask)


def _configs(model: nn.Module) -> list[Any]:
    """Every config of a model and its parts; sub-models may hold copies, so all modules are asked."""
    found: dict[int, Any] = {}
    waiting: list[Any] = [module.config for module in model.modules() if hasattr(module, "config")]
    while waiting:
        config = waiting.pop()
        if id(config) in found or not hasattr(config, "_attn_implementation_internal"):
            continue
        found[id(config)] = config
        waiting += [getattr(config, name, None) for name in getattr(config, "sub_configs", ())]
    return list(found.values())


def _names(model: nn.Module) -> list[tuple[Any, str]]:
    """Every config with the name it must say: each sub-model by its own word on sdpa, the rest by the whole model's."""
    own = {id(part.config): part for part in model.modules() if hasattr(part, "_supports_sdpa")}
    deciding = [(config, own.get(id(config), model)) for config in _configs(model)]
    return [(config, "strop" if getattr(part, "_supports_sdpa", False) else "strop_eager") for config, part in deciding]


def _take(config: Any, name: str) -> None:
    with _LOCK:
        _, own, users = _USERS.get(id(config), (config, config._attn_implementation_internal, 0))
        _USERS[id(config)] = (config, own, users + 1)
        config._attn_implementation_internal = Name.over(own, name)


def _release(config: Any) -> None:
    with _LOCK:
        _, own, users = _USERS.pop(id(config))
        if users > 1:
            _USERS[id(config)] = (config, own, users - 1)
        else:
            config._attn_implementation_internal = own
