"""Softmax that may look away: an extra logit takes weight and holds no value, so a row can attend to nothing.

    OffByOne      one zero logit:    softmax(e)·σ(logsumexp e)              = exp(e_j) / (1 + Σ exp(e_l))
    LearnedSink   one learned logit: softmax(e)·σ(logsumexp e − sink_h)     gpt-oss and others
    WithSink      any temperature normaliser with a given sink logit: softmax(β e)·σ(logsumexp(β e) − sink)

`OffByOne(n0)` uses log n0 as the sink: as if n0 keys of logit 0 stood in the row.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from strop._checks import require, require_number
from strop._types import Rows
from strop.normalisers.base import Temperature, per_head
from strop.normalisers.constant import Softmax
from strop.sharpness import RowStats


class OffByOne(Softmax):
    """Softmax with n0 added to the denominator."""

    def __init__(self, n0: float = 1.0) -> None:
        super().__init__()
        self.n0 = require_number("n0", n0, above=0)

    def sink(self) -> Tensor:
        """log n0."""
        return torch.tensor(math.log(self.n0), dtype=torch.float64)


class LearnedSink(Softmax):
    """Softmax with one learned sink logit, for all heads or for each; it starts at 0."""

    def __init__(self, heads: int | None = None, init: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.logit = per_head(heads, require_number("init", init))

    def sink(self) -> Tensor:
        """The learned logit."""
        return self.logit


class WithSink(Temperature):
    """A temperature normaliser together with a sink logit that some model brings."""

    def __init__(self, inner: Temperature, logit: Tensor) -> None:
        super().__init__()
        require(inner.plain, "inner must leave the keys alone and ask for logits only", type(inner).__name__)
        self.inner = inner
        self.heads = inner.heads
        self.uses = inner.uses  # type: ignore[misc]
        self.logit = logit

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """As the inner normaliser does."""
        return self.inner.prepare_query(query, n_keys)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """As the inner normaliser does."""
        return self.inner.inverse_temperature(stats)

    def sink(self) -> Tensor:
        """The given logit."""
        return self.logit
