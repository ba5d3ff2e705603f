"""What a normaliser is: the step from a row of logits to the weights of its keys.

There are two ways in:

    Temperature   weights = softmax(β·logits), and β is the answer to one question, `inverse_temperature(stats)`.
                  Every implementation of attention can run it, since β only scales the query of an ordinary
                  kernel. It may also have a sink, a logit that takes weight and holds no value:
                  weights·σ(logsumexp(β·logits) − sink).
    Normaliser    any other rule; it writes `weights(logits, keep)`, and the implementations that hold whole rows
                  can run it.

Either may change the query before the logits are formed (`prepare_query`). A normaliser that is no temperature may
also change the keys (`prepare_key`) and read the query beside the logits (`weights_of`); only the implementations
that hold whole rows then run it (`plain` says which). Weights need not be positive or sum to one: such a normaliser
says `simplex = False`, and no entropy is ever reported of its weights. One whose rows depend on each other, or on
other heads, says `rowwise = False` and runs in `reference` only. A row that sees no key has zero weights, always.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from strop._checks import require
from strop._types import Keep, Logits, Rows, Weights
from strop.sharpness import RowStats, upcast


class Normaliser(nn.Module):
    """Turns logits [*batch, n_q, n_k] into weights of the same shape; learned ones train like any module."""

    rowwise: ClassVar[bool] = True
    """The weights of a row depend on that row's logits alone (and on its query, for `weights_of`)."""
    simplex: ClassVar[bool] = True
    """Weights are at least 0 and sum to at most 1, so that their entropy means something."""
    additive: ClassVar[bool] = True
    """Numbers may be added to the logits: an additive mask, ALiBi. Where not, `attention` refuses them."""
    heads: int | None = None
    """Set where parameters are per head: logits must then be [*batch, heads, n_q, n_k]."""

    @property
    def plain(self) -> bool:
        """The keys enter as they are and the logits alone decide: neither `prepare_key` nor `weights_of` is changed."""
        kind = type(self)
        return kind.prepare_key is Normaliser.prepare_key and kind.weights_of is Normaliser.weights_of

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """Change the query [*batch, n_q, d] before the logits; `n_keys` broadcasts to [*batch, n_q]."""
        return query

    def prepare_key(self, key: Tensor) -> Tensor:
        """Change the keys [*batch, n_k, d] before the logits."""
        return key

    def weights_of(self, query: Tensor, logits: Logits, keep: Keep | None = None) -> Weights:
        """Return the weights where the prepared query [*batch, n_q, d] counts too; this is what attention calls."""
        return self.weights(logits, keep)

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Return the weights of every row: the dense definition."""
        raise NotImplementedError(f"{type(self).__name__} must define weights(logits, keep).")

    def forward(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Same as `weights`, so that a normaliser can stand where a module is called."""
        return self.weights(logits, keep)


class Temperature(Normaliser):
    """The family softmax(β·logits) in which β is a function of the row's statistics."""

    uses: ClassVar[Literal["constant", "n_keys", "entropy"]] = "entropy"
    """What β depends on; max and min may be unknown (NaN) to it, and all but n_keys unless it says "entropy"."""

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """Return β for every row, broadcastable to [*batch, n_q]."""
        raise NotImplementedError(f"{type(self).__name__} must define inverse_temperature(stats).")

    def sink(self) -> Tensor | None:
        """Logit of an extra key that holds no value, broadcastable to [*batch, n_q]; None for no such key."""
        return None

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Softmax of β·logits over the visible keys, less what the sink takes."""
        logits = upcast(logits)
        beta = self.inverse_temperature(RowStats.of(logits, keep))
        tempered = beta[..., None] * logits
        weights = softmax(tempered, keep)
        sink = self.sink()
        if sink is None:
            return weights
        return weights * torch.sigmoid(RowStats.of(tempered, keep).logsumexp - sink)[..., None]


def softmax(logits: Logits, keep: Keep | None = None) -> Weights:
    """Softmax over the visible keys: exact zeros elsewhere and for a row that sees nothing, never a NaN gradient."""
    if keep is None:
        return logits.softmax(-1)
    return torch.where(keep, torch.where(keep, logits, -torch.inf).softmax(-1), 0.0)


def log_n_keys(n_keys: Rows, dtype: torch.dtype) -> Rows:
    """log n, with 0 for rows that see one key or none."""
    return n_keys.clamp(min=1).to(dtype).log()


def visible(logits: Logits, keep: Keep | None, instead: float = 0.0) -> Logits:
    """Logits with another number at hidden keys, which so leave before they can make a NaN gradient."""
    return logits if keep is None else torch.where(keep, logits, instead)


def require_square(kind: str, logits: Logits) -> None:
    """Raise unless there are as many queries as keys: what a normaliser that compares rows needs."""
    n_q, n_k = logits.shape[-2:]
    remedy = "It compares each row with the rows before it, so it cannot run on part of the rows"
    require(n_q == n_k, f"{kind} must have as many queries as keys", f"{n_q} and {n_k}", remedy)


def per_head(heads: int | None, value: float) -> nn.Parameter:
    """Return a learned number for all heads (None), or [heads, 1], which broadcasts over rows [*batch, heads, n_q]."""
    require(heads is None or heads >= 1, "heads must be at least 1 or None", heads)
    return nn.Parameter(torch.full(() if heads is None else (heads, 1), float(value)))
