"""Quicker passes over a frozen model, for the length of a block: what a calibration does hundreds of times.

attention        on the CPU, by strop's kernels wherever transformers lets a model choose
linear layers    in bfloat16, where the settings ask for it (half_products.py)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from strop.calibration.half_products import HalfProducts
from strop.patching.interface import switch
from strop.patching.placement import device_of
from strop.patching.sites import find_owners


@contextmanager
def quick_passes(model: nn.Module, half: bool) -> Iterator[None]:
    """Let the model's passes be quick inside the block; what they give differs by rounding."""
    with ExitStack() as stack:
        if half:
            stack.enter_context(HalfProducts(model).on())
        if device_of(model).type == "cpu":
            stack.enter_context(switch(find_owners(model)))
        yield
