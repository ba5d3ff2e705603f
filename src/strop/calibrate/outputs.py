"""SEAL's remedy (arXiv 2501.15225), for comparison and combination: a scale of each head's *output*.

    out = W_o·[s_1·o_1; …; s_H·o_H],  s_h = 1 + a_h

It works where the heads' outputs enter the output projection, and folds into that projection's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from strop._checks import require

PROJECTIONS = ("o_proj", "out_proj", "dense", "c_proj", "wo")


def output_projection(module: nn.Module) -> nn.Module:
    """Return the projection that an attention module ends with."""
    for name in PROJECTIONS:
        found = getattr(module, name, None)
        if isinstance(found, nn.Module):
            return found
    require(False, f"{type(module).__name__} must have an output projection", f"none of {', '.join(PROJECTIONS)}")
    raise AssertionError


@contextmanager
def scaled_outputs(model: nn.Module, scales: Mapping[str, Tensor]) -> Iterator[None]:
    """Scale head outputs by 1 + scales[name] [heads] for the length of the block; gradients reach the scales."""
    modules = dict(model.named_modules())
    with ExitStack() as stack:
        for name, scale in scales.items():
            hook = output_projection(modules[name]).register_forward_pre_hook(_scaling(scale))
            stack.callback(hook.remove)
        yield


def _scaling(scale: Tensor) -> Any:
    def hook(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        joined = given[0]
        heads = joined.unflatten(-1, (len(scale), -1))
        return ((heads * (1.0 + scale[:, None]).to(heads.dtype)).flatten(-2), *given[1:])

    return hook
