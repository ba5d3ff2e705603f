"""Multi-token attention (arXiv 2504.00927): the weight of a key depends on neighbouring queries, keys and heads,

    e'_hij = Σ_{a = 0 … c_q−1} Σ_{|b| ≤ (c_k−1)/2} θ_h[a, b]·e_h,i−a,j−b      hidden and missing logits count as 0
    p_h = softmax(e'_h) over the visible keys
    weights_h = Σ_g m_hg·p_g,     g over the heads of h's group

θ and m are learned and start as the identity, so that all begins as softmax. Every logit that enters is one that its
own row may see, of that row or an earlier one: under a causal mask nothing of the future enters. Rows before are
needed, so there must be as many queries as keys. m is free, so weights may be negative or sum to other than 1: no
entropy is defined. The paper's norm after each head is the model's.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._checks import require
from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, require_square, softmax, visible
from strop.sharpness import upcast


class MultiToken(Normaliser):
    """Softmax of logits convolved over queries and keys, then mixed over groups of `group` heads (None: over all)."""

    rowwise = False
    simplex = False

    def __init__(self, heads: int, c_q: int = 6, c_k: int = 11, group: int | None = None) -> None:
        super().__init__()
        require(heads >= 1, "heads must be at least 1", heads)
        require(c_q >= 1, "c_q must be at least 1", c_q)
        require(c_k >= 1 and c_k % 2 == 1, "c_k must be odd", c_k, "Keys are taken from both sides alike")
        group = heads if group is None else group
        require(group >= 1 and heads % group == 0, f"group must divide the {heads} heads", group)
        self.heads: int = heads
        kernel = torch.zeros(heads, c_q, c_k)
        kernel[:, 0, c_k // 2] = 1.0
        self.kernel = nn.Parameter(kernel)
        self.mixing = nn.Parameter(torch.eye(group).repeat(heads // group, 1, 1))

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Convolve, normalise and mix logits [*batch, heads, n, n]."""
        require_square("MultiToken", logits)
        if logits.numel() == 0:
            return upcast(logits)
        logits = visible(upcast(logits), keep)
        return visible(self._mixed(softmax(self._convolved(logits), keep)), keep)

    def _convolved(self, logits: Logits) -> Logits:
        """Depthwise convolution; torch's correlates, hence the flip, and pads only where the rows before would be."""
        c_q, c_k = self.kernel.shape[-2:]
        padded = F.pad(logits, (c_k // 2, c_k // 2, c_q - 1, 0))
        kernel = self.kernel.to(logits.dtype).flip(-2, -1)[:, None]
        flat = padded.reshape(-1, *padded.shape[-3:])
        return F.conv2d(flat, kernel, groups=self.heads).reshape(logits.shape)

    def _mixed(self, weights: Weights) -> Tensor:
        """Weighted sums over the heads of each group."""
        mixing = self.mixing.to(weights.dtype)
        grouped = weights.unflatten(-3, mixing.shape[:2])
        return torch.einsum("ghk,...gkij->...ghij", mixing, grouped).flatten(-4, -3)
