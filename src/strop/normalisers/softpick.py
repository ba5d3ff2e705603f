"""Softpick: a rectified softmax.

Numerator and denominator are multiplied by exp(−m), m = max(e_1, …, e_n, 0), in forms that neither overflow nor cancel:

    e > 0:   exp(e − m)·(1 − exp(−e))          e ≤ 0:   exp(−m)·(1 − exp(e))
"""

from __future__ import annotations

import torch.nn.functional as F

from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, visible
from strop.sharpness import upcast

EPSILON = 1e-8


class Softpick(Normaliser):
    """A rectified softmax, which may attend to nothing.

        w_j = relu(exp(e_j) − 1) / (Σ_l |exp(e_l) − 1| + ε),     ε = 1e-8

    From arXiv 2504.20966. It learns nothing. A key whose logit is 0 or less has weight exactly 0 but still stands in
    the denominator, so weights sum to at most 1, and to 0 where no logit is positive.

    Train with it for heads that need a way to stay silent. Adding a number to all logits changes the weights, so it is
    no stand-in for softmax in a trained model.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Softpick
        >>> Softpick().weights(torch.tensor([[2.0, 1.0, 0.0, -1.0], [-1.0, -2.0, -3.0, -4.0]]))
        tensor([[0.7311, 0.1966, 0.0000, 0.0000],
                [0.0000, 0.0000, 0.0000, 0.0000]])
    """

    name = "softpick"

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Shares of the positive part; a hidden key stands as logit 0, which adds nothing anywhere."""
        logits = visible(upcast(logits), keep)
        if logits.shape[-1] == 0:
            return logits
        above, below = F.relu(logits), F.relu(-logits)
        top = above.detach().amax(-1, keepdim=True)
        rising = (above - top).exp() * -(-above).expm1()
        falling = (-top).exp() * -(-below).expm1()
        total = (rising + falling).sum(-1, keepdim=True) + EPSILON * (-top).exp()
        return rising / total
