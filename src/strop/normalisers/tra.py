"""Threshold relative attention, TRA."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._checks import require
from strop._types import Keep, Logits, Rows, Weights
from strop.errors import UnsupportedError
from strop.normalisers.base import Normaliser, softmax, visible
from strop.sharpness import upcast


class TRA(Normaliser):
    """Softmax over the keys of positive logit, less a learned cost for every kept key between.

        q, k ← RMS-normed;     S_j = relu(e_j),  kept where S_j > 0
        D_j = log σ(w_h·q) · #{kept l ≥ j}            the forget gate times how many kept keys stand between, j included
        weights = softmax over the kept keys of S + D;     0 for all where none is kept

    From arXiv 2503.23174. Keys below the threshold are gone, and distance is counted in the keys that are left. It
    learns w_h, a vector per head that starts at zero, a gate of ½. That paper's gate reads the layer's input at the
    row; an attention call has only the query, so the gate here reads the head's own (normed) query: our choice. The
    norms have no learned gain, `scale` stays that of the call.

    Train with it on sequences. Order is that of the keys in memory, and a row is taken to stand at the end of what it
    sees, as under a causal mask; for sets that means nothing. It needs the query beside the logits: call `weights_of`
    or `strop.attention`.

    Args:
        heads: Number of query heads.
        head_dim: Size of a query.

    Examples:
        >>> import torch
        >>> from strop.normalisers import TRA
        >>> query, logits = torch.ones(1, 1, 2), torch.tensor([[[1.0, -1.0, 1.0, 1.0]]])
        >>> TRA(heads=1, head_dim=2).weights_of(query, logits).detach()  # each kept key after it halves a weight
        tensor([[[0.1429, 0.0000, 0.2857, 0.5714]]])
    """

    name = "tra"

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        require(heads >= 1, "heads must be at least 1", heads)
        require(head_dim >= 1, "head_dim must be at least 1", head_dim)
        self.heads: int = heads
        self.gate_weight = nn.Parameter(torch.zeros(heads, 1, head_dim))

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """RMS norm."""
        return rms_normed(query)

    def prepare_key(self, key: Tensor) -> Tensor:
        """RMS norm."""
        return rms_normed(key)

    def weights_of(self, query: Tensor, logits: Logits, keep: Keep | None = None) -> Weights:
        """Weights for the prepared query [*batch, heads, n_q, head_dim]."""
        logits = visible(upcast(logits), keep)
        gate = F.logsigmoid((upcast(query) * self.gate_weight.to(logits.dtype)).sum(-1, keepdim=True))
        kept = ~(logits <= 0)  # a NaN is kept, and shows; what is hidden stands as 0, hence is not
        distance = kept.flip(-1).cumsum(-1).flip(-1)
        return softmax(logits + gate * distance, kept)

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Not defined without the query."""
        raise UnsupportedError("TRA needs the query beside the logits. Call weights_of(query, logits, keep).")

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"heads={self.heads}, head_dim={self.gate_weight.shape[-1]}"


def rms_normed(x: Tensor) -> Tensor:
    """x / √(mean x² + 1e-6)."""
    return F.rms_norm(x, x.shape[-1:], eps=1e-6)
