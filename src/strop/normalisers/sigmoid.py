"""Sigmoid attention (arXiv 2409.04431): every key is weighed for itself, and nothing is shared out,

    w_j = σ(e_j + b),     b = −log n_train

so that n_train keys of logit 0 have a total weight near 1. b is a setting, or learned from there (one, or one a head).
The weights of a row may sum to more than 1: no entropy is defined.
"""

from __future__ import annotations

import math

import torch

from strop._checks import require_number
from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, per_head, visible
from strop.sharpness import upcast


class Sigmoid(Normaliser):
    """σ(logits + b), b = −log n_train, learned from there where `learnable` is set."""

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
