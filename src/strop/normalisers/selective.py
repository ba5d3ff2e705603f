"""Selective attention (arXiv 2410.02703): a token may tell all later ones that a key is no longer needed,

    S_ij = relu(e⁰_ij) for visible j other than i and than the first token, else 0        e⁰: the logits of head 0
    F_ij = Σ_{k < i} S_kj
    weights = softmax(e − F), the same F for every head

Nothing is learned but what head 0 learns. The first token is the first key that any row may see, so left padding
changes nothing. F gathers over the rows before, so there must be as many queries as keys, in the same order; with a
causal mask no row learns anything of later ones.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, require_square, softmax, visible
from strop.sharpness import upcast


class Selective(Normaliser):
    """Softmax less what earlier rows of head 0 have marked as not needed."""

    rowwise = False

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Softmax of logits [*batch, heads, n, n] less F; two dimensions are one head."""
        require_square("Selective", logits)
        logits = upcast(logits)
        return softmax(logits - _forgotten(logits, keep), keep)


def _forgotten(logits: Logits, keep: Keep | None) -> Tensor:
    """F as [*batch, 1, n, n], from head 0."""
    keep = logits.new_ones((), dtype=torch.bool) if keep is None else keep
    first_head = (..., slice(0, 1), slice(None), slice(None)) if logits.ndim > 2 else ...
    selector, sees = logits[first_head], keep.broadcast_to(logits.shape)[first_head]
    seen = sees.any(-2, keepdim=True)
    first = seen & (seen.cumsum(-1) == 1)
    own = torch.eye(logits.shape[-1], dtype=torch.bool, device=logits.device)
    marks = visible(F.relu(selector), sees & ~first & ~own)
    return F.pad(marks[..., :-1, :], (0, 0, 1, 0)).cumsum(-2)
