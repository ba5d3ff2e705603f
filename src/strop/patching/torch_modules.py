"""The way into modules that call torch's attention themselves: nn.MultiheadAttention, timm, and your own.

While patched, such a module's forward runs under a torch function mode that answers
F.scaled_dot_product_attention with our attention. Three traps are closed by the roles that modules play for the length
of the block: nn.TransformerEncoderLayer's fast path, which in eval mode never calls its attention module;
nn.TransformerEncoder's nested tensors; and timm's switch `fused_attn`, which chooses between torch's attention and a
softmax written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from strop.kernels import Mask, Request
from strop.kernels.dense import form_weights
from strop.kernels.fit import fit_mask, fit_tensors
from strop.kernels.shapes import repeat_heads
from strop.kernels.shards import shard_here
from strop.patching.frames import PLAIN, Site, answer, find_posts, resolve
from strop.patching.stand_in import Fixed


def _body(function: Any) -> FunctionType:
    """A copy of torch's function that runs under our mode instead of handing itself over to it for ever."""
    plain = vars(F) | {"has_torch_function": lambda _: False}
    copy = FunctionType(function.__code__, plain, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


_MULTI_HEAD = F.multi_head_attention_forward
_MULTI_HEAD_BODY = _body(_MULTI_HEAD)


class TorchSite(Site):
    """A module that calls torch's attention: its forward runs under our mode, whoever calls it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, by our attention."""
        if "forward" not in vars(self):
            return super().__call__(*args, **kwargs)
        with _OurAttention(self):  # accelerate and others put a forward of theirs before the class's
            return super().__call__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own, with our attention in torch's place."""
        with _OurAttention(self):
            return super().forward(*args, **kwargs)


class TimmSite(TorchSite):
    """timm's attention, by torch's function."""

    fused_attn = Fixed(True)


class EncoderLayer(Site):
    """nn.TransformerEncoderLayer without its fast path, which asks for this."""

    activation_relu_or_gelu = Fixed(0)


class Encoder(Site):
    """nn.TransformerEncoder without nested tensors."""

    use_nested_tensor = Fixed(False)


def attending_modules() -> list[Any]:
    """Return the modules whose calls of torch's attention we answer just now."""
    return [mode.module for mode in _get_current_function_mode_stack() if isinstance(mode, _OurAttention)]


@contextmanager
def attend_again(modules: list[Any]) -> Iterator[None]:
    """Answer the calls of these modules for the length of the block, where we do not do so already."""
    active = attending_modules()
    with ExitStack() as stack:
        for module in modules:
            if module not in active:
                stack.enter_context(_OurAttention(module))
        yield


def find_role(module: nn.Module, through_torch: bool) -> type[Site]:
    """Return the role that a module plays while it is patched."""
    if isinstance(module, nn.TransformerEncoder):
        return Encoder
    if isinstance(module, nn.TransformerEncoderLayer):
        return EncoderLayer
    if not through_torch:
        return Site
    return TimmSite if isinstance(getattr(module, "fused_attn", None), bool) else TorchSite


def find_encoders(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield name and module of torch's encoders and their layers, which must not go their fast ways."""
    for name, module in model.named_modules():
        if isinstance(module, nn.TransformerEncoder | nn.TransformerEncoderLayer):
            yield name, module


class _OurAttention(TorchFunctionMode):
    """Answers torch's attention inside one module's forward."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module
        self.last: Request | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is F.scaled_dot_product_attention:
            self.last, rows = _read(*args, **kwargs)
            with torch._C.DisableTorchFunction():  # our kernels call torch's function in earnest
                out = answer(self.module, self.last)
            return out.reshape(*rows, out.shape[-1])
        if func is _MULTI_HEAD:
            return self._multi_head(*args, **kwargs)
        return func(*args, **kwargs)

    def _multi_head(
        self, *args: Any, need_weights: bool = True, average_attn_weights: bool = True, **kwargs: Any
    ) -> Any:
        with self:  # torch takes a mode away while it answers; the body needs it again
            out, _ = _MULTI_HEAD_BODY(*args, need_weights=False, **kwargs)
        if not need_weights:
            return out, None
        assert self.last is not None
        weights = self._weights(self.last)
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights if args[0].dim() == 3 else weights.squeeze(0)

    def _weights(self, request: Request) -> Tensor:
        """The dense weights of the last call, n × n: only where a module must return them."""
        key = repeat_heads(request.key, request.query)
        rule = resolve(find_posts(self.module), request.n_heads)
        return form_weights(request._replace(key=key, normaliser=rule))[0]


def _read(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Request, torch.Size]:
    """Read the arguments of torch's function; return them in four dimensions, and the shape of the output's rows."""
    query, key, value = fit_tensors(query, key, value, enable_gqa)
    rows, attn_mask = query.shape[:-1], fit_mask(attn_mask, query)
    if query.ndim != 4:
        query, key, value, attn_mask = _four_dimensional(query, key, value, attn_mask)
    shard = shard_here()
    mask = Mask.read(attn_mask, is_causal, query, key.shape[-2] if shard is None else shard.shards.n)
    scale = float(query.shape[-1] ** -0.5) if scale is None else float(scale)
    return Request(query, key, value, mask, scale, PLAIN, dropout_p=dropout_p, shard=shard), rows


def _four_dimensional(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """[n, d] and [b, n, d] get one head; of more than four axes all but the last three become the batch."""
    heads = 1 if query.ndim < 4 else query.shape[-3]
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], mask.shape[-1])
        mask = mask.reshape(-1, heads, *mask.shape[-2:])
    query, key, value = (x.reshape(-1, 1 if x.ndim < 4 else x.shape[-3], *x.shape[-2:]) for x in (query, key, value))
    return query, key, value, mask
