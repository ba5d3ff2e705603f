"""Stick-breaking attention, computed in log space:

log w_j = log σ(e_j) + Σ_{l > j, visible} log σ(−e_l)
"""

from __future__ import annotations

import torch.nn.functional as F

from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, visible
from strop.sharpness import upcast


class StickBreaking(Normaliser):
    """Ask the keys from the last to the first: each takes its share of what is left of a stick.

        w_j = σ(e_j)·Π_{l > j, visible} (1 − σ(e_l))

    From arXiv 2410.17980. It learns nothing. Nearer keys come first, so positions need no other code. What no key takes
    is lost: weights sum to at most 1. The paper's rows see the keys before their own, j < i: that is the caller's mask
    (`is_causal` shows a row its own key too). Order is that of the keys in memory.

    Train with it on sequences where the latest match counts. It means nothing for sets, which have no order.

    Examples:
        >>> import torch
        >>> from strop.normalisers import StickBreaking
        >>> StickBreaking().weights(torch.tensor([[0.0, 0.0, 0.0], [4.0, 4.0, -4.0]]))  # the latest good match wins
        tensor([[0.1250, 0.2500, 0.5000],
                [0.0173, 0.9644, 0.0180]])
    """

    name = "stick_breaking"

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Each key's share of what later keys left, in log space."""
        logits = visible(upcast(logits), keep)
        left_by = visible(F.logsigmoid(-logits), keep)
        # shifted by one before it is summed: taking a key's own term off again would cancel
        left = F.pad(left_by[..., 1:], (0, 1)).flip(-1).cumsum(-1).flip(-1)
        return visible((F.logsigmoid(logits) + left).exp(), keep)
