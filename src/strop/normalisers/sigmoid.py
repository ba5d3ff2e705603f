"""Sigmoid attention: every key is weighed for itself."""

from __future__ import annotations

import math

import torch

from strop._checks import require_number
from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, per_head, visible
from strop.sharpness import upcast


class Sigmoid(Normaliser):
    """Weigh every key for itself by a sigmoid, so that nothing is shared out.

        w_j = σ(e_j + b),     b = −log n_train

    From arXiv 2409.04431. With this b, n_train keys of logit 0 have a total weight near 1. It learns b from there where
    `learnable` is set, and nothing otherwise.

    Train with it where the number of keys hardly changes. The weights of a row may sum to more than 1 and their sum
    grows with n; no entropy is defined.

    Args:
        trained_length: n_train, the number of keys of a row in training.
        learnable: Learn b.
        heads: Number of query heads, to have one b for each. None: one for all.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Sigmoid
        >>> rule = Sigmoid(trained_length=4)
        >>> rule.weights(torch.zeros(1, 4))
        tensor([[0.2000, 0.2000, 0.2000, 0.2000]])
        >>> round(rule.weights(torch.zeros(1, 1000)).sum().item())  # the more keys, the more weight in all
        200
    """

    name = "sigmoid"
    simplex = False

    def __init__(self, trained_length: float, learnable: bool = False, heads: int | None = None) -> None:
        super().__init__()
        self.trained_length = require_number("trained_length", trained_length, above=0)
        self.heads = heads
        self.bias = per_head(heads, -math.log(self.trained_length)).requires_grad_(learnable)

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """The sigmoid of each visible logit."""
        logits = upcast(logits)
        weights = torch.sigmoid(visible(logits, keep) + self.bias.to(logits.dtype)[..., None])
        return visible(weights, keep)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"trained_length={self.trained_length:g}"
