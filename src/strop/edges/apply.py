"""Put the parts of an edge on a model for the length of a block; gradients reach their numbers.

A temperature goes by our kernels, as in `sharpened`. A constant one may scale the query instead, β·(q·k) = (β·q)·k, so
that torch's own attention runs, and its gradients. Edits of the query and output scales change a layer each.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from strop.edges.part import Part
from strop.edges.temperatures import Constant, TemperaturePart
from strop.patching.identity import heads_of
from strop.patching.layer_changes import change_layers
from strop.patching.placement import device_of
from strop.patching.sharpen import sharpened
from strop.patching.sites import find_sites


@contextmanager
def apply_parts(
    model: nn.Module, parts: Mapping[str, Mapping[str, Part]], by_queries: bool = False, partial: bool = False
) -> Iterator[None]:
    """Put parts on a model; with `by_queries` constant temperatures scale the query where that is possible.

    `partial` accepts that modules run without calling the attention that temperatures act in.
    """
    modules, heads = dict(model.named_modules()), heads_of(model)
    with ExitStack() as stack:
        for named in parts.values():
            rules = {name: part for name, part in named.items() if isinstance(part, TemperaturePart)}
            if rules:
                stack.enter_context(temper(model, rules, by_queries, partial))
            changes = {name: part.change_layer(modules[name], heads[name]) for name, part in named.items()}
            stack.enter_context(change_layers({name: change for name, change in changes.items() if change is not None}))
        yield


def place_parts(model: nn.Module, parts: Mapping[str, Mapping[str, Part]]) -> dict[str, dict[str, Part]]:
    """Return parts where their modules lie: themselves, or copies of those that lie elsewhere."""
    places = {name: device_of(model.get_submodule(name)) for named in parts.values() for name in named}
    return {term: {name: _place(part, places[name]) for name, part in named.items()} for term, named in parts.items()}


def _place(part: Part, device: torch.device) -> Part:
    here = all(number.device == device for number in part.parameters())
    return part if here else copy.deepcopy(part).to(device)


def _takes_scaled_queries(model: nn.Module) -> bool:
    """Whether every attention of the model is torch's function without a soft cap."""
    config: Any = getattr(model, "config", None)
    plain = config is not None and not getattr(config.get_text_config(), "attn_logit_softcapping", None)
    return plain and not find_sites(model).by_torch and getattr(config, "_attn_implementation", None) == "sdpa"


@contextmanager
def temper(
    model: nn.Module, rules: Mapping[str, TemperaturePart], by_queries: bool = True, partial: bool = False
) -> Iterator[None]:
    """Put rules on a model for the length of the block, by scaled queries where possible; gradients reach them.

    Layers that are recomputed in the backward pass run outside the mode that scales queries, so those go by kernels.
    """
    if not (by_queries and _takes_scaled_queries(model) and all(isinstance(rule, Constant) for rule in rules.values())):
        with sharpened(model, rules, partial=partial):
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
        self.rule: TemperaturePart | None = None

    def hooks(self, rule: TemperaturePart) -> tuple[Any, Any]:
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
