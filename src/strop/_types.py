"""Names for the shapes that run through the library, in torch's order [*batch, n, d]."""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor

Rows: TypeAlias = Tensor
"""[*batch, n_q]: one number for each query row."""

Logits: TypeAlias = Tensor
"""[*batch, n_q, n_k]: scaled scores before any normaliser, hidden keys included."""

Weights: TypeAlias = Tensor
"""[*batch, n_q, n_k]: what multiplies the values; exactly 0 at hidden keys."""

Keep: TypeAlias = Tensor
"""bool, broadcastable to [*batch, n_q, n_k]: True = this row may look at this key."""
