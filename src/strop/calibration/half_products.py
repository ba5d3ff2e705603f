"""Products with frozen weights in bfloat16, for the length of a block: faster where the processor has them.

    out = (x in bfloat16)·Wᵀ + b,      its gradient  (g in bfloat16)·W;      everything else stays as it was

Sums are float32 inside the product. The residual stream, norms, attention, the head and an edge's own numbers keep the
model's dtype, so what is lost is the rounding of a layer's inputs and weights, once. A copy of the weights is kept
meanwhile, of half their size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

LARGE = 20_000_000
"""Numbers of a model from which on half the bytes are worth their rounding."""


def saves_time(model: nn.Module) -> bool:
    """Whether products in bfloat16 are worth it: a large float32 model on a processor that multiplies them."""
    counts = sum(one.numel() for one in model.parameters() if one.dtype == torch.float32 and one.device.type == "cpu")
    told: Any = getattr(torch.cpu, "get_capabilities", dict)()  # torch before 2.7 does not tell
    return counts >= LARGE and bool(told.get("avx512_bf16") or told.get("amx_bf16"))


class HalfProducts:
    """The linear layers of a frozen float32 model on a CPU, with their weights in bfloat16; the head is left out."""

    def __init__(self, model: nn.Module) -> None:
        find_head: Any = getattr(model, "get_output_embeddings", lambda: None)
        head = find_head()
        layers = [one for one in model.modules() if type(one) is nn.Linear and one is not head and _takes_part(one)]
        self.weights = [(layer, layer.weight.detach().bfloat16()) for layer in layers]

    @contextmanager
    def on(self) -> Iterator[None]:
        """Multiply by them for the length of the block."""
        with ExitStack() as stack:
            for layer, weight in self.weights:
                _replace(layer, weight, stack)
            yield


def _takes_part(layer: nn.Linear) -> bool:
    weight = layer.weight
    return weight.dtype == torch.float32 and weight.device.type == "cpu" and "forward" not in layer.__dict__


def _replace(layer: nn.Linear, weight: Tensor, stack: ExitStack) -> None:
    multiply: Any = _Product.apply

    def forward(x: Tensor) -> Tensor:
        out: Tensor = multiply(x, weight)
        return out if layer.bias is None else out + layer.bias

    layer.__dict__["forward"] = forward
    stack.callback(layer.__dict__.pop, "forward", None)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return functional.linear(x.bfloat16(), weight).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (weight,), (gradient,) = ctx.saved_tensors, gradients
        return (gradient.bfloat16() @ weight).to(gradient.dtype), None
