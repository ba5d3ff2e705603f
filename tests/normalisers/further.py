"""The normalisers that are neither temperatures nor shares of a threshold, and logits for them."""

from collections.abc import Callable

import torch
from cases import HEAD_DIM, HEADS
from torch import Tensor

from strop.normalisers import (
    TRA,
    Differential,
    Linear,
    MultiToken,
    Normaliser,
    Selective,
    Sigmoid,
    Softpick,
    StickBreaking,
)

FURTHER: dict[str, Callable[[], Normaliser]] = {
    "sigmoid": lambda: Sigmoid(6),
    "sigmoid learned": lambda: moved(Sigmoid(6, learnable=True, heads=HEADS)),
    "linear": Linear,
    "softpick": Softpick,
    "stick_breaking": StickBreaking,
    "tra": lambda: moved(TRA(HEADS, HEAD_DIM)),
    "selective": Selective,
    "differential": lambda: moved(Differential(HEADS)),
    "multi_token": lambda: moved(MultiToken(HEADS, c_q=3, c_k=5, group=2)),
}


def moved(normaliser: Normaliser, by: float = 0.3) -> Normaliser:
    """Move parameters away from their start, each by its own amount."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in normaliser.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=draw))
    return normaliser


def randn(draw: torch.Generator, *shape: int) -> Tensor:
    """Normal numbers in float64."""
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def weigh(normaliser: Normaliser, logits: Tensor, keep: Tensor | None = None) -> Tensor:
    """Weights of logits [*batch, HEADS, n_q, n_k] with what the normaliser asks for besides: a query, a sign."""
    if isinstance(normaliser, Linear):
        return normaliser.weights(logits.abs(), keep)
    if isinstance(normaliser, TRA):
        query = torch.arange(HEADS * logits.shape[-2] * HEAD_DIM).view(HEADS, -1, HEAD_DIM).cos().to(logits.dtype)
        return normaliser.weights_of(query, logits, keep)
    return normaliser.weights(logits, keep)


def inputs(draw: torch.Generator, n_q: int, n_k: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Query, key and value, two in the batch."""
    return [randn(draw, 2, HEADS, n, d).to(dtype) for n, d in ((n_q, HEAD_DIM), (n_k, HEAD_DIM), (n_k, 5))]


def causal(n: int) -> Tensor:
    """Row i sees keys j ≤ i."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def holes(n: int) -> Tensor:
    """A causal mask in which some keys are hidden from some rows, and row 3 sees nothing."""
    seen = torch.rand(n, n, generator=torch.Generator().manual_seed(5)) < 0.7
    return causal(n) & seen & (torch.arange(n) != 3)[:, None]
