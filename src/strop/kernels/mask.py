"""The one meaning of `attn_mask` and `is_causal`: which keys a row may see, and what is added to its logits.

torch's arguments come in four forms: a bool mask (True = may look), an additive mask (−inf hides), `is_causal` (row i
sees keys j ≤ i, the upper-left triangle) and `torch.nn.attention.bias` objects (upper-left or lower-right triangle).
All become a `Mask`:

    keep       bool, broadcastable to [*batch, n_q, n_k], or None for every key
    bias       finite numbers added to the logits, 0 at hidden keys, or None
    diagonal   row i sees keys j ≤ i + diagonal, or None

Additive values at or below half the lowest number of their dtype hide a key just as −inf does: that is how models
write "never" where −inf is not wanted, and such a key is not counted in n_keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor

from strop._checks import require
from strop._types import Keep, Rows


@dataclass(frozen=True, eq=False)
class Mask:
    """What each query row may see."""

    keep: Keep | None = None
    bias: Tensor | None = None
    diagonal: int | None = None

    @classmethod
    def of(cls, attn_mask: Tensor | None, is_causal: bool, query: Tensor, key: Tensor) -> Mask:
        """Read torch's arguments for these queries and keys [*batch, n, d]."""
        n_q, n_k = query.shape[-2], key.shape[-2]
        if is_causal:
            require(
                attn_mask is None,
                "attn_mask must be None when is_causal is set",
                "both",
                "Put one into the other",
            )
            return cls(diagonal=0)
        if attn_mask is None:
            return cls()
        if _is_causal_bias(attn_mask):
            sizes = (attn_mask.seq_len_q, attn_mask.seq_len_kv)
            require(sizes == (n_q, n_k), f"attn_mask must be made for {n_q} queries and {n_k} keys", sizes)
            return cls(diagonal=n_k - n_q if attn_mask.variant.name == "LOWER_RIGHT" else 0)
        _check_shape(attn_mask, query, n_k)
        if attn_mask.dtype == torch.bool:
            return cls(keep=attn_mask)
        require(attn_mask.is_floating_point(), "attn_mask must be bool or floating point", attn_mask.dtype,
                "A mask of 0 and 1 becomes bool by mask.bool()", TypeError)  # fmt: skip
        keep = ~(attn_mask <= torch.finfo(attn_mask.dtype).min / 2)  # NaN stays visible and shows
        return cls(keep=keep, bias=torch.where(keep, attn_mask, 0.0))

    def rows(self, start: int, stop: int) -> Mask:
        """Return the mask of query rows start … stop − 1."""
        return Mask(
            _rows(self.keep, start, stop),
            _rows(self.bias, start, stop),
            None if self.diagonal is None else self.diagonal + start,
        )

    def dense(self, n_q: int, n_k: int, device: torch.device) -> Keep | None:
        """Return one bool mask of all that is hidden, broadcastable to [*batch, n_q, n_k]; None where nothing is."""
        if self.diagonal is None:
            return self.keep
        triangle = torch.ones(n_q, n_k, dtype=torch.bool, device=device).tril(self.diagonal)
        return triangle if self.keep is None else self.keep & triangle

    def n_keys(self, n_q: int, n_k: int, device: torch.device) -> Rows:
        """Return how many keys each row may see, broadcastable to [*batch, n_q]."""
        if self.keep is not None:
            keep = self.dense(n_q, n_k, device)
            assert keep is not None
            return keep.expand(*keep.shape[:-1], n_k).sum(-1)
        if self.diagonal is None:
            return torch.full((n_q,), n_k, device=device)
        return (torch.arange(n_q, device=device) + self.diagonal + 1).clamp(0, n_k)


def _is_causal_bias(attn_mask: Any) -> TypeGuard[Any]:
    """Known by name: importing the class for an isinstance would load torch's whole compiler, a second or more."""
    return type(attn_mask).__name__ == "CausalBias"


def _rows(mask: Tensor | None, start: int, stop: int) -> Tensor | None:
    return mask if mask is None or mask.ndim < 2 or mask.shape[-2] == 1 else mask[..., start:stop, :]


def _check_shape(attn_mask: Tensor, query: Tensor, n_k: int) -> None:
    full = (*query.shape[:-1], n_k)
    fits = attn_mask.ndim <= len(full) and all(
        size in (1, whole) for size, whole in zip(reversed(attn_mask.shape), reversed(full), strict=False)
    )
    require(fits, f"attn_mask must broadcast to {full}", tuple(attn_mask.shape))
    require(attn_mask.device == query.device, f"attn_mask must be on {query.device}", attn_mask.device)
