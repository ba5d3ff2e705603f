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
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from strop.calibration.forms import Constant, Form
from strop.patching.layout import find_output
from strop.patching.sharpen import sharpened
from strop.patching.sites import find_sites


@contextmanager
def scale_outputs(model: nn.Module, scales: Mapping[str, Tensor]) -> Iterator[None]:
    """Scale head outputs by 1 + scales[name] [heads] for the length of the block; gradients reach the scales."""
    modules = dict(model.named_modules())
    with ExitStack() as stack:
        for name, scale in scales.items():
            hook = find_output(modules[name]).register_forward_pre_hook(_make_scaling(scale))
            stack.callback(hook.remove)
        yield


def _make_scaling(scale: Tensor) -> Any:
    def hook(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        joined = given[0]
        heads = joined.unflatten(-1, (len(scale), -1))
        return ((heads * (1.0 + scale[:, None]).to(heads)).flatten(-2), *given[1:])

    return hook


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
            args = (query * self.rule.numbers.exp()[..., None].to(query), *args[1:])
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

    before = dict(layer.__dict__)  # accelerate may have put a forward of its own there
    layer.__dict__["forward"] = forward
    stack.callback(_put_back, layer, before)


def _put_back(layer: nn.Module, before: Mapping[str, Any]) -> None:
    if "forward" in before:
        layer.__dict__["forward"] = before["forward"]
    else:
        del layer.__dict__["forward"]
