"""Selective attention: earlier rows strike out keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, require_square, softmax, visible
from strop.sharpness import upcast


class Selective(Normaliser):
    """Softmax in which a token may tell all later ones that a key is no longer needed.

        S_ij = relu(e⁰_ij) for visible j other than i and than the first token, else 0        e⁰: the logits of head 0
        F_ij = Σ_{k < i} S_kj
        weights = softmax(e − F), the same F for every head

    From arXiv 2410.02703. It learns nothing but what head 0 learns. The first token is the first key that any row may
    see, so left padding changes nothing.

    Train with it where old tokens are superseded by later ones. F gathers over the rows before, so there must be as
    many queries as keys, in the same order: no decoding with a cache. With a causal mask no row learns anything of
    later ones. It runs in `reference` only, with O(n²) memory.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Selective
        >>> causal = torch.ones(4, 4, dtype=torch.bool).tril()
        >>> logits = torch.zeros(4, 4)
        >>> logits[2, 1] = 3.0  # row 2 looks at key 1 and so strikes it out for the rows after it
        >>> Selective().weights(logits, causal)
        tensor([[1.0000, 0.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000, 0.0000],
                [0.0453, 0.9094, 0.0453, 0.0000],
                [0.3279, 0.0163, 0.3279, 0.3279]])
    """

    name = "selective"
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
