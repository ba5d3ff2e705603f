"""Stick-breaking attention (arXiv 2410.17980): keys are asked from the last to the first, and each takes its share of
what is left of the stick,

    w_j = σ(e_j)·Π_{l > j, visible} (1 − σ(e_l))
    log w_j = log σ(e_j) + Σ_{l > j, visible} log σ(−e_l)

Nearer keys come first, so positions need no other code. What no key takes is lost: weights sum to at most 1. The
paper's rows see the keys before their own, j < i: that is the caller's mask (`is_causal` shows a row its own key too).
Order is that of the keys in memory.
"""

from __future__ import annotations

import torch.nn.functional as F

from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, visible
from strop.sharpness import upcast


class StickBreaking(Normaliser):
    """Shares of a stick, broken from the last visible key to the first."""

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Each key's share of what later keys left, in log space."""
        logits = visible(upcast(logits), keep)
        left_by = visible(F.logsigmoid(-logits), keep)
        # shifted by one before it is summed: taking a key's own term off again would cancel
        left = F.pad(left_by[..., 1:], (0, 1)).flip(-1).cumsum(-1).flip(-1)
        return visible((F.logsigmoid(logits) + left).exp(), keep)
