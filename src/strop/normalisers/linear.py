"""Linear attention, in its quadratic form."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from strop._types import Keep, Logits, Rows, Weights
from strop.normalisers.base import Normaliser, visible
from strop.sharpness import upcast


class Linear(Normaliser):
    """Shares of a positive kernel of query and key, in place of the exponential.

        w_j = φ(q)·φ(k_j) / Σ_l φ(q)·φ(k_l),     φ(x) = elu(x) + 1 = exp(min(x, 0)) + max(x, 0)

    From arXiv 2006.16236. It learns nothing. It is here in its quadratic form, like any other normaliser, so that masks
    and statistics mean what they mean elsewhere; the linear-time recurrence is not what this library is about.

    `prepare_query` and `prepare_key` apply φ, so the logits are scale·φ(q)·φ(k), and the scale cancels (scale 0 leaves
    nothing to share out: all weights are 0). A number added to the kernel has no meaning, so additive masks other than
    0 and −inf are refused. A negative logit, which φ cannot make, shows as a NaN row.

    Use it to compare with models of linear attention. It averages well, but it cannot be sharp.

    Examples:
        >>> import torch
        >>> import strop
        >>> from strop.normalisers import Linear
        >>> query, key = torch.tensor([[2.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 2.0]])
        >>> strop.attention(query, key, torch.eye(2), impl="reference")  # softmax; the values show the weights
        tensor([[0.9442, 0.0558]])
        >>> strop.attention(query, key, torch.eye(2), impl="reference", normaliser=Linear())
        tensor([[0.6250, 0.3750]])
    """

    name = "linear"
    additive = False

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """φ(q)."""
        return features(query)

    def prepare_key(self, key: Tensor) -> Tensor:
        """φ(k)."""
        return features(key)

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Shares of logits that are a kernel, hence not negative."""
        kernel = visible(upcast(logits), keep)
        kernel = torch.where(kernel < 0, torch.nan, kernel)
        total = kernel.sum(-1, keepdim=True)
        return visible(kernel / torch.where(total == 0, 1.0, total), keep)


def features(x: Tensor) -> Tensor:
    """elu(x) + 1, without the cancellation that makes it 0 in float32 below about −17."""
    return x.clamp(max=0.0).exp() + F.relu(x)
