"""Where a model's layers lie: on one device, or spread by accelerate over cards, the processor and a disk.

accelerate hangs a hook on every module with weights, which says where the module computes. Weights that it keeps on a
disk or in the processor's memory are there only while their module runs; between calls they have no numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.errors import StateError


def device_of(module: nn.Module) -> torch.device:
    """Return where a module computes, which for a whole model is where its inputs belong."""
    for part in module.modules():
        for hook in _hooks(part):
            if getattr(hook, "execution_device", None) is not None:
                return torch.device(hook.execution_device)
    tensor = next(module.parameters(), None)
    return torch.device("cpu") if tensor is None else tensor.device


def read_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield every parameter by name, in the order of names, wherever it is kept; one at a time is in memory."""
    for name, parameter in sorted(model.named_parameters()):
        yield name, _fetch(model, name) if parameter.is_meta else parameter.detach()


@contextmanager
def weights_present(module: nn.Module) -> Iterator[None]:
    """Have the weights of a module and its parts in memory for the length of the block."""
    kept = [(part, hook) for part in module.modules() for hook in _hooks(part) if getattr(hook, "offload", False)]
    try:
        for part, hook in kept:
            hook.pre_forward(part)
        yield
    finally:
        for part, hook in kept:
            hook.post_forward(part, None)


def _fetch(model: nn.Module, name: str) -> Tensor:
    owner, _, own = name.rpartition(".")
    maps = [getattr(hook, "weights_map", None) for hook in _hooks(model.get_submodule(owner))]
    found: Tensor | None = next((one[own] for one in maps if one is not None), None)
    require(found is not None, f"{name} must have numbers", "a tensor on the meta device", "Load it", StateError)
    assert found is not None
    return found.detach()


def _hooks(module: nn.Module) -> list[Any]:
    """What accelerate hangs on a module, known by its name: accelerate need not be installed."""
    hook: Any = getattr(module, "_hf_hook", None)
    return [] if hook is None else list(getattr(hook, "hooks", [hook]))
