"""A user's model is measured as it would run: no dropout, no gradients to its parameters, and as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def freeze(model: nn.Module) -> Iterator[None]:
    """Freeze a model's parameters and turn dropout off for the length of the block."""
    wanted = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    training = [module for module in model.modules() if module.training]
    try:
        model.requires_grad_(False)
        model.eval()
        yield
    finally:
        for name, parameter in model.named_parameters():  # asked again: accelerate makes anew those it brings in
            if name in wanted:
                parameter.requires_grad_(True)
        for module in training:
            module.training = True
