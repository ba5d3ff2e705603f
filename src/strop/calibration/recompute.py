"""Gradients in less memory: layers are run again in the backward pass instead of remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from strop.patching.sites import find_sites


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
