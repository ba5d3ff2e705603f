"""What calibration does to a model while it learns: temperatures, output scales, layers that are run again.

temper             a rule per attention module. A constant β per head scales the query, β·(q·k) = (β·q)·k, so that
                   torch's own attention runs, and its gradients; other forms go by our kernels, as in `sharpened`.
scale_outputs      SEAL's remedy (arXiv 2501.15225): out = W_o·[s_1·o_1; …; s_H·o_H], s_h = 1 + a_h. It works where
                   the heads' outputs enter the output projection, and folds into that projection's columns.
recompute_layers   gradients in less memory: layers are run again in the backward pass instead of remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from strop.calibration.forms import Constant, Form
from strop.patching.frames import Frame, Part, find_parts, push
from strop.patching.layout import find_output
from strop.patching.recompute import remember_frames
from strop.patching.sharpen import sharpened
from strop.patching.sites import find_sites
from strop.patching.stand_in import StandIn, stand


@contextmanager
def scale_outputs(model: nn.Module, scales: Mapping[str, Tensor]) -> Iterator[None]:
    """Scale head outputs by 1 + scales[name] [heads] for the length of the block; gradients reach the scales."""
    frame = Frame()
    frame.put_on = partial(_put_scales, model, scales, frame)
    with push(frame), frame.put_on(), remember_frames():
        yield


@contextmanager
def _put_scales(model: nn.Module, scales: Mapping[str, Tensor], frame: Frame) -> Iterator[None]:
    modules = dict(model.named_modules())
    with ExitStack() as stack:
        for name, scale in scales.items():
            stack.enter_context(stand(find_output(modules[name]), _Output, _Scale(frame, name, scale=scale)))
        yield


@dataclass(eq=False, kw_only=True)
class _Scale(Part):
    scale: Tensor


class _Output(StandIn):
    """The role of an output projection whose inputs, the heads' outputs, are scaled."""

    def __call__(self, joined: Tensor, *args: Any, **kwargs: Any) -> Any:
        for part in find_parts(self):
            assert isinstance(part, _Scale)
            heads = joined.unflatten(-1, (len(part.scale), -1))
            joined = (heads * (1.0 + part.scale[:, None]).to(heads.dtype)).flatten(-2)
        return super().__call__(joined, *args, **kwargs)


def _takes_scaled_queries(model: nn.Module) -> bool:
    """Whether every attention of the model is torch's function without a soft cap."""
    config: Any = getattr(model, "config", None)
    plain = config is not None and not getattr(config.get_text_config(), "attn_logit_softcapping", None)
    return plain and not find_sites(model).by_torch and getattr(config, "_attn_implementation", None) == "sdpa"


@contextmanager
def temper(model: nn.Module, rules: Mapping[str, Form], by_queries: bool = True) -> Iterator[None]:
    """Put rules on a model for the length of the block, by scaled queries where possible; gradients reach them.

    Layers that are recomputed in the backward pass run outside the mode that scales queries, so those go by kernels.
    """
    if not (by_queries and _takes_scaled_queries(model) and all(isinstance(rule, Constant) for rule in rules.values())):
        with sharpened(model, rules):
            yield
        return
    modules, scaling = dict(model.named_modules()), _ScaledQueries()
    with ExitStack() as stack:
        for name, rule in rules.items():
            enter, leave = scaling.hooks(rule)
            stack.callback(modules[name].register_forward_pre_hook(enter).remove)
            stack.callback(modules[name].register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(scaling)
        yield


class _ScaledQueries(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.rule: Form | None = None

    def hooks(self, rule: Form) -> tuple[Any, Any]:
        def enter(*_: Any) -> None:
            self.rule = rule

        def leave(*_: Any) -> None:
            self.rule = None

        return enter, leave

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention and self.rule is not None:
            query: Tensor = args[0]
            args = (query * self.rule.numbers.exp()[..., None].to(query.dtype), *args[1:])
        return func(*args, **kwargs)


@contextmanager
def recompute_layers(model: nn.Module) -> Iterator[None]:
    """Recompute every layer that holds an attention module for the length of the block.

    Only layers that run without a cache are recomputed: with one, running a layer twice would write its keys twice.
    """
    modules = dict(model.named_modules())
    layers = {name.rpartition(".")[0] for name in find_sites(model).all}
    with ExitStack() as stack:
        for name in layers:
            _wrap(modules[name], stack)
        yield


def _wrap(layer: nn.Module, stack: ExitStack) -> None:
    own = layer.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or kwargs.get("past_key_values") is not None:
            return own(*args, **kwargs)
        return checkpoint(own, *args, use_reentrant=False, **kwargs)

    layer.__dict__["forward"] = forward
    stack.callback(layer.__dict__.pop, "forward")
