"""One call of attention, from the door or from a model's patch to the kernel: what every implementation is given."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from strop._types import Rows
from strop.kernels.mask import Mask
from strop.kernels.shards import LocalShard
from strop.kernels.tracing import may_look
from strop.normalisers import Normaliser


class Request(NamedTuple):
    """One call of attention as an implementation gets it: checked, with its mask read.

    `strop.attention` makes it from its arguments. `strop.kernels.attend` runs it.

    Attributes:
        query: [*batch, n_q, d].
        key: [*batch, n_k, d]; the query's heads may be a multiple of its heads.
        value: [*batch, n_k, d_v], with the key's heads.
        mask: What each row may see.
        scale: What multiplies query·key.
        normaliser: The rule from logits to weights.
        softcap: Bound of the logits, softcap·tanh(logits/softcap). None: no bound.
        dropout_p: Share of the weights to drop.
        return_stats: Ask for the statistics of each row.
        sink: [heads], a model's own logit of an extra key that holds no value. β does not scale it. None: no such key.
        shard: This rank's part of a sequence that a group of ranks shares. None: the keys are all there are.

    Examples:
        >>> import torch
        >>> from strop.kernels import Mask, Request
        >>> from strop.normalisers import Softmax
        >>> q = torch.zeros(1, 2, 3, 4)
        >>> request = Request(q, q, q, Mask(diagonal=0), scale=0.5, normaliser=Softmax())
        >>> request.n_heads, request.n_q, request.n_keys
        (2, 3, tensor([1, 2, 3]))
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Mask
    scale: float
    normaliser: Normaliser
    softcap: float | None = None
    dropout_p: float = 0.0
    return_stats: bool = False
    sink: Tensor | None = None
    shard: LocalShard | None = None

    @property
    def n_q(self) -> int:
        """Query rows."""
        return self.query.shape[-2]

    @property
    def n_k(self) -> int:
        """Keys."""
        return self.key.shape[-2]

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return self.query.shape[-3]

    @property
    def n_keys(self) -> Rows:
        """Keys that each row may see."""
        return self.mask.n_keys(self.n_q, self.n_k, self.query.device)

    @property
    def wants_gradient(self) -> bool:
        """Whether anything that the call is given wants a gradient."""
        if not torch.is_grad_enabled():
            return False
        bias = self.mask.bias
        if self.query.requires_grad or self.key.requires_grad or self.value.requires_grad:
            return True
        return (bias is not None and bias.requires_grad) or learns(self.normaliser)

    @property
    def finite(self) -> bool:
        """Whether query, key and value hold no NaN or infinity, by their sums; True where nobody may look."""
        if not may_look(self.query):
            return True
        return bool((self.query.sum() + self.key.sum() + self.value.sum()).isfinite())

    def pick(self, rows: Tensor) -> Request:
        """Return the request of some rows [R] alone, given by their indices."""
        return self._replace(query=self.query[..., rows, :], mask=self.mask.pick(rows, self.n_k))


def learns(module: nn.Module) -> bool:
    """Whether a normaliser has anything that wants a gradient, a parameter or not."""
    own = (*module._parameters.values(), *vars(module).values())
    if any(isinstance(value, Tensor) and value.requires_grad for value in own):
        return True
    return any(child is not None and learns(child) for child in module._modules.values())
