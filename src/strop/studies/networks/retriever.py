"""The single-head retriever of arXiv 2410.01104, written as the definition: one line per formula.

    h_i = psi_x(x_i)        h_q = psi_q(query)                 two-layer GELU MLPs of one width
    e_i = scale * (Q h_q) . (K h_i)                            scale = 1, or 1/sqrt(width): the paper does not say
    a   = normaliser(e)     z = sum_i a_i V h_i     class logits = phi(z)

No position, residual or normalisation layer. `fast_retriever.py` computes the same function with the second item layer,
K and V applied once per set; it is tested against this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from strop.errors import ArgumentError


@dataclass(frozen=True)
class RetrieverConfig:
    """The shape of a retriever and what the paper leaves open.

    Args:
        features: columns of an item.
        classes: possible answers.
        width: of every hidden layer.
        scaled: divide the dot product by sqrt(width).
        gelu: the exact function ("erf") or its approximation ("tanh").
        init: torch's own initial weights, or those of Flax ("lecun").

    Examples:
        >>> from strop.studies.networks import RetrieverConfig
        >>> RetrieverConfig(width=64, scaled=True).scale
        0.125
    """

    features: int = 11
    classes: int = 10
    width: int = 128
    scaled: bool = False
    gelu: Literal["erf", "tanh"] = "erf"
    init: Literal["torch", "lecun"] = "torch"

    def __post_init__(self) -> None:
        for name in ("features", "classes", "width"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1, got {getattr(self, name)}. Use the default.")
        if self.gelu not in ("erf", "tanh"):
            raise ArgumentError(f"gelu must be 'erf' or 'tanh', got {self.gelu!r}. Use 'erf' for the exact function.")
        if self.init not in ("torch", "lecun"):
            raise ArgumentError(f"init must be 'torch' or 'lecun', got {self.init!r}. Use 'torch'.")

    @property
    def scale(self) -> float:
        """What multiplies the dot product."""
        return float(self.width**-0.5) if self.scaled else 1.0

    @property
    def approximate(self) -> str:
        """What torch calls this GELU."""
        return "tanh" if self.gelu == "tanh" else "none"


def mlp(inputs: int, width: int, outputs: int, approximate: str) -> nn.Sequential:
    """Two layers with a GELU between them."""
    return nn.Sequential(nn.Linear(inputs, width), nn.GELU(approximate), nn.Linear(width, outputs))


class Retriever(nn.Module):
    """The paper's model under plain softmax, as the definition has it.

    Args:
        config: the shape; by default the paper's.
        generator: decides the initial weights; without one they are torch's own draw.

    Examples:
        >>> import torch
        >>> from strop.studies.networks import Retriever, RetrieverConfig
        >>> model = Retriever(RetrieverConfig(width=8), torch.Generator().manual_seed(0))
        >>> tuple(model(items=torch.zeros(2, 5, 11), query=torch.zeros(2)).shape)
        (2, 10)
    """

    def __init__(self, config: RetrieverConfig | None = None, generator: Generator | None = None) -> None:
        super().__init__()
        self.config = c = config or RetrieverConfig()
        self.item = mlp(c.features, c.width, c.width, c.approximate)
        self.query = mlp(1, c.width, c.width, c.approximate)
        self.to_query = nn.Linear(c.width, c.width, bias=False)
        self.to_key = nn.Linear(c.width, c.width, bias=False)
        self.to_value = nn.Linear(c.width, c.width, bias=False)
        self.readout = mlp(c.width, c.width, c.classes, c.approximate)
        if generator is not None:
            draw_retriever_weights(self, generator)

    def logits(self, items: Tensor, query: Tensor) -> Tensor:
        """Attention logits e: items [sets, n, features], query [sets] -> [sets, n]."""
        q = self.to_query(self.query(query.unsqueeze(-1)))
        k = self.to_key(self.item(items))
        return self.config.scale * torch.einsum("sd,snd->sn", q, k)

    def read(self, items: Tensor, weights: Tensor) -> Tensor:
        """Class logits from attention weights: items [sets, n, features], weights [sets, n] -> [sets, classes]."""
        v = self.to_value(self.item(items))
        out: Tensor = self.readout(torch.einsum("sn,snd->sd", weights, v))
        return out

    def forward(self, items: Tensor, query: Tensor) -> Tensor:
        """Class logits under plain softmax: [sets, classes]."""
        return self.read(items, torch.softmax(self.logits(items, query), dim=-1))


@torch.no_grad()
def draw_retriever_weights(model: Retriever, generator: Generator) -> None:
    """`torch`: weights and biases ~ U(±1/sqrt(fan_in)). `lecun` (Flax's): normal with variance 1/fan_in, biases 0."""
    for layer in model.modules():
        if not isinstance(layer, nn.Linear):
            continue
        bound = layer.in_features**-0.5
        if model.config.init == "torch":
            layer.weight.uniform_(-bound, bound, generator=generator)
            if layer.bias is not None:
                layer.bias.uniform_(-bound, bound, generator=generator)
        else:
            layer.weight.normal_(0.0, bound, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
