"""The way into modules that call torch's attention themselves: nn.MultiheadAttention, timm, and your own.

While patched, such a module's forward runs under a torch function mode that answers
F.scaled_dot_product_attention with our attention. Three traps are closed for the length of the block:
nn.TransformerEncoderLayer's fast path, which in eval mode never calls its attention module (a hook on that
module turns it off); nn.TransformerEncoder's nested tensors; and timm's switch `fused_attn`, which chooses
between torch's attention and a softmax written out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from strop.kernels import Mask, Request
from strop.kernels.dense import form_weights
from strop.kernels.fit import fit_mask, fit_tensors
from strop.kernels.shapes import repeat_heads
from strop.patching.frames import PLAIN, answer, resolve

_LOCK = threading.RLock()
_USERS: dict[int, int] = {}
_UNDO: dict[int, Callable[[], None]] = {}


def _body(function: Any) -> FunctionType:
    """A copy of torch's function that runs under our mode instead of handing itself over to it for ever."""
    plain = vars(F) | {"has_torch_function": lambda _: False}
    copy = FunctionType(function.__code__, plain, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


_MULTI_HEAD = F.multi_head_attention_forward
_MULTI_HEAD_BODY = _body(_MULTI_HEAD)


@contextmanager
def reroute(model: nn.Module, modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let the given modules, and the encoders above them, call our attention for the length of the block."""
    encoders = [module for module in model.modules() if isinstance(module, nn.TransformerEncoder)]
    taken = []
    try:
        for module in [*modules, *encoders]:
            _take(module)
            taken.append(module)
        yield
    finally:
        for module in reversed(taken):
            _release(module)


class _OurAttention(TorchFunctionMode):
    """Answers torch's attention inside one module's forward."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.last: Request | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is F.scaled_dot_product_attention:
            self.last, rows = _read(*args, **kwargs)
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
        rule = resolve(self.module, request.n_heads)
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
    mask = Mask.read(attn_mask, is_causal, query, key)
    scale = float(query.shape[-1] ** -0.5) if scale is None else float(scale)
    return Request(query, key, value, mask, scale, PLAIN, dropout_p=dropout_p), rows


def _four_dimensional(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """[n, d] and [b, n, d] get one head; of more than four axes all but the last three become the batch."""
    heads = 1 if query.ndim < 4 else query.shape[-3]
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
        mask = mask.reshape(-1, heads, *mask.shape[-2:])
    query, key, value = (x.reshape(-1, 1 if x.ndim < 4 else x.shape[-3], *x.shape[-2:]) for x in (query, key, value))
    return query, key, value, mask


def _take(module: nn.Module) -> None:
    with _LOCK:
        _USERS[id(module)] = _USERS.get(id(module), 0) + 1
        if _USERS[id(module)] == 1:
            _UNDO[id(module)] = _patch(module)


def _release(module: nn.Module) -> None:
    with _LOCK:
        _USERS[id(module)] -= 1
        if _USERS[id(module)] == 0:
            del _USERS[id(module)]
            _UNDO.pop(id(module))()


def _patch(module: nn.Module) -> Callable[[], None]:
    """Change one module and return how to undo it."""
    if isinstance(module, nn.TransformerEncoder):
        return _set(module, "use_nested_tensor", False)
    own = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with _OurAttention(module):
            return own(*args, **kwargs)

    hook = module.register_forward_pre_hook(lambda *_: None)
    undo = [_set(module, "forward", forward), hook.remove]
    if isinstance(getattr(module, "fused_attn", None), bool):
        undo.append(_set(module, "fused_attn", True))

    def undone() -> None:
        for step in reversed(undo):
            step()

    return undone


def _set(module: nn.Module, name: str, value: object) -> Callable[[], None]:
    """Set an attribute on this very instance and return how to put back what was there."""
    had, old = name in module.__dict__, module.__dict__.get(name)
    module.__dict__[name] = value

    def undo() -> None:
        if had:
            module.__dict__[name] = old
        else:
            del module.__dict__[name]

    return undo
