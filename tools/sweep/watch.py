"""Sees every attention that a model computes without strop, whatever the model's code looks like.

A dispatch mode meets each operator that torch runs. Attention is one of torch's fused operators, or a softmax over the
last axis between two batched products, with none but harmless steps such as scaling, masks and dropout in between: so a
router's softmax, or one that mixes streams, is none.
What runs inside strop's kernels is not counted. So in a patched model whatever is left here is attention that strop
does not reach, found without asking strop.

With a beta, the watched attention is computed with its logits times beta: the model as it would be if all of its
attention were sharpened, which is what `sharpened(model, Softmax(beta))` must equal.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FUSED = ("scaled_dot_product_attention", "_scaled_dot_product", "_native_multi_head_attention",
         "_transformer_encoder_layer_fwd", "_flash_attention", "_efficient_attention")  # fmt: skip
SOFTMAX = ("_softmax", "_safe_softmax", "softmax")
HARMLESS = (
    "_to_copy", "clone", "copy_", "mul", "mul_", "div", "div_", "add", "add_", "sub", "sub_", "neg", "tanh", "clamp",
    "where", "masked_fill", "masked_fill_", "native_dropout", "nan_to_num", "index", "index_put_", "gather", "cat",
    "stack", "flip", "roll", "repeat", "constant_pad_nd", "slice_scatter", "select_scatter",
)  # fmt: skip
PRODUCT = ("bmm", "baddbmm")
OURS = ("strop.kernels", "strop.patching.measure")
"""Where strop computes attention itself; a patched model runs beneath other parts of strop from end to end."""

Mark = tuple[int, str]
"""Which softmax a tensor comes from, and in which module."""

LOGITS: Mark = (-1, "")
"""The mark of what comes from a batched product and may become attention."""

TEMPERED: Mark = (-2, "")
"""The mark of logits that were multiplied when a sink came beside them: beta does not scale a sink."""


class Watch(TorchDispatchMode):
    """Counts attention outside strop by module, in `sites`."""

    def __init__(self, model: nn.Module, beta: float = 1.0, softmaxes: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.sites: Counter[str] = Counter()
        self.softmaxes: set[int] = set()
        """Which of the softmaxes, in their order, turned out to be attention."""
        self._names = {id(module): name for name, module in model.named_modules()}
        self._beta, self._sharpened = beta, softmaxes
        self._seen = 0
        self._made: dict[int, Mark] = {}
        self._kept: list[Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run one operator and remember what matters of it."""
        name, kwargs = func._schema.name.removeprefix("aten::"), dict(kwargs or {})
        if name.startswith(FUSED) and not name.endswith("_backward"):
            return self._fused(func, args, kwargs)
        if name in SOFTMAX and args[1] in (-1, args[0].ndim - 1):
            return self._softmax(func, args, kwargs)
        if name == "logsumexp" and self._made.get(_storage(args[0])) == LOGITS and self._seen in self._sharpened:
            return func(args[0] * self._beta, *args[1:], **kwargs)  # a sink's share, of the softmax that comes next
        if name in HARMLESS or name in PRODUCT:
            return self._follow(name, func, args, kwargs)
        return func(*args, **kwargs)

    def _fused(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = self._place()
        if place is None:
            return func(*args, **kwargs)
        self.sites[place] += 1
        if self._beta != 1.0:
            args = (args[0] * self._beta, *args[1:])
            masks = {name: value * self._beta for name, value in kwargs.items() if _additive(name, value)}
            kwargs |= masks
            args = (*args[:3], *(value * self._beta if _additive("attn_mask", value) else value for value in args[3:]))
        return func(*args, **kwargs)

    def _softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mark = self._made.get(_storage(args[0]))
        place = self._place() if mark in (LOGITS, TEMPERED) else None
        if place is None:
            return func(*args, **kwargs)
        number, self._seen = self._seen, self._seen + 1
        if number in self._sharpened and mark == LOGITS:
            args = (args[0] * self._beta, *args[1:])
        return self._mark(func(*args, **kwargs), (number, place))

    def _follow(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        marks = [mark for mark in (self._made.get(_storage(tensor)) for tensor in tensors) if mark is not None]
        if name == "cat" and self._seen in self._sharpened and _has_sink(tensors) and marks == [LOGITS]:
            return self._mark(func([tensors[0] * self._beta, tensors[1]], *args[1:], **kwargs), TEMPERED)
        out = func(*args, **kwargs)
        if name not in PRODUCT:
            return self._mark(out, max(marks)) if marks else out
        for number, place in marks:
            if number >= 0:
                self.sites[place] += number not in self.softmaxes
                self.softmaxes.add(number)
        return self._mark(out, LOGITS)

    def _mark(self, out: Any, mark: Mark) -> Any:
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._made[_storage(tensor)] = mark
                self._kept.append(tensor)  # so that no other tensor gets its address
        return out

    def _place(self) -> str | None:
        """The module that is running; None inside strop's own attention."""
        frame, place = sys._getframe(2), None
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith(OURS):
                return None
            module = frame.f_locals.get("self") if place is None else None
            if isinstance(module, nn.Module) and id(module) in self._names:
                place = self._names[id(module)]
            frame = frame.f_back
        return "" if place is None else place


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _has_sink(tensors: list[Tensor]) -> bool:
    """Whether one more column stands beside logits."""
    return len(tensors) == 2 and tensors[0].ndim == 4 and tensors[1].shape[-1] == 1 < tensors[0].shape[-1]


def _additive(name: str, value: object) -> bool:
    return name in ("attn_mask", "attn_bias") and isinstance(value, Tensor) and value.is_floating_point()
