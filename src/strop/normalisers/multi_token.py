"""Multi-token attention: logits convolved over rows and keys, heads mixed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from strop._checks import require
from strop._types import Keep, Logits, Weights
from strop.normalisers.base import Normaliser, require_square, softmax, visible
from strop.sharpness import upcast


class MultiToken(Normaliser):
    """Softmax in which the weight of a key depends on neighbouring queries, keys and heads.

        e'_hij = Σ_{a = 0 … c_q−1} Σ_{|b| ≤ (c_k−1)/2} θ_h[a, b]·e_h,i−a,j−b      hidden and missing logits count as 0
        p_h = softmax(e'_h) over the visible keys
        weights_h = Σ_g m_hg·p_g,     g over the heads of h's group

    From arXiv 2504.00927. It learns θ (`kernel`) and m (`mixing`), which start as the identity, so that all begins as
    softmax. Every logit that enters is one that its own row may see, of that row or an earlier one: under a causal mask
    nothing of the future enters. m is free, so weights may be negative or sum to other than 1, and no entropy is
    defined. The paper's norm after each head is the model's.

    Train with it where what is sought shows in several neighbouring tokens. It needs the rows before, hence as many
    queries as keys: no decoding with a cache. It runs in `reference` only, with O(n²) memory.

    Args:
        heads: Number of query heads.
        c_q: Rows that are looked at together: the row itself and those before it.
        c_k: Keys that are looked at together, on both sides alike. Odd.
        group: Heads that are mixed with each other; it divides `heads`. None: all of them.

    Examples:
        >>> import torch
        >>> from strop.normalisers import MultiToken
        >>> logits = torch.zeros(1, 4, 4)  # [heads, n, n]
        >>> logits[0, 3] = torch.tensor([2.0, 0.0, 2.0, 0.0])
        >>> rule = MultiToken(heads=1, c_q=1, c_k=3)
        >>> rule.weights(logits)[0, 3].detach()  # softmax at first
        tensor([0.4404, 0.0596, 0.4404, 0.0596])
        >>> _ = rule.kernel.data.fill_(1.0)  # now a key counts with its two neighbours
        >>> rule.weights(logits)[0, 3].detach()
        tensor([0.0963, 0.7112, 0.0963, 0.0963])
    """

    name = "multi_token"
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

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        c_q, c_k = self.kernel.shape[-2:]
        return f"heads={self.heads}, c_q={c_q}, c_k={c_k}, group={self.mixing.shape[-1]}"
