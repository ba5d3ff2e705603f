"""Softmax that may look away.

An extra logit, the sink, takes weight and holds no value, so a row can attend to nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from strop._checks import require, require_number
from strop._types import Rows
from strop.normalisers.base import Temperature, per_head
from strop.normalisers.constant import Softmax
from strop.normalisers.fusion import TEMPERATURES, Fusion
from strop.sharpness import RowStats


class OffByOne(Softmax):
    """Softmax with n0 added to the denominator, so that a row of low logits attends to almost nothing.

        w_j = exp(e_j) / (n0 + Σ exp(e_l)) = softmax(e)·σ(logsumexp e − log n0)

    It is as if n0 keys of logit 0 and without value stood in the row. n0 = 1 is "Attention Is Off By One" (E. Miller,
    2023). It learns nothing. Train with it for heads that need a way to stay silent. In a model trained with softmax it
    takes weight from every row.

    Args:
        n0: What is added to the denominator.

    Examples:
        >>> import torch
        >>> from strop.normalisers import OffByOne
        >>> OffByOne().weights(torch.tensor([[2.0, 1.0], [-5.0, -5.0]]))  # the second row looks away
        tensor([[0.6652, 0.2447],
                [0.0066, 0.0066]])
    """

    name = "off_by_one"

    def __init__(self, n0: float = 1.0) -> None:
        super().__init__()
        self.n0 = require_number("n0", n0, above=0)

    def sink(self) -> Tensor:
        """log n0."""
        return torch.tensor(math.log(self.n0), dtype=torch.float64)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"n0={self.n0:g}"


class LearnedSink(Softmax):
    """Softmax with one learned sink logit.

        weights = softmax(e)·σ(logsumexp e − sink_h)

    gpt-oss and others have it. It learns the sink logit, for all heads or for each. Train with it for heads that need a
    way to stay silent; a model that brings its own sink keeps it in `strop.sharpened` without this class.

    Args:
        heads: Number of query heads, to have one sink for each. None: one for all.
        init: Where the sink starts. 0 is `OffByOne`.

    Examples:
        >>> import torch
        >>> from strop.normalisers import LearnedSink
        >>> weights = LearnedSink(init=2.0).weights(torch.tensor([[2.0, 1.0]])).detach()
        >>> weights
        tensor([[0.4223, 0.1554]])
        >>> 1 - weights.sum(-1)  # what the sink takes
        tensor([0.4223])
    """

    name = "sink"

    def __init__(self, heads: int | None = None, init: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.logit = per_head(heads, require_number("init", init))

    def sink(self) -> Tensor:
        """The learned logit."""
        return self.logit

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"heads={self.heads}"


class WithSink(Temperature):
    """Any temperature normaliser, together with a sink logit that some model brings.

        weights = softmax(β·e)·σ(logsumexp(β·e) − sink)

    β is that of the inner normaliser; the sink is not scaled. It learns what the inner normaliser learns. Use it to
    sharpen heads whose sink must stay as it was trained. `strop.sharpened` does so by itself.

    Args:
        inner: A normaliser of the temperature family, which leaves the keys alone.
        logit: The sink, broadcastable to [*batch, n_q]; [heads, 1] for one a head.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Softmax, WithSink
        >>> logits, sink = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor(1.0)
        >>> WithSink(Softmax(), sink).weights(logits)
        tensor([[0.5344, 0.1966, 0.0723]])
        >>> WithSink(Softmax(beta=3), sink).weights(logits)
        tensor([[0.9443, 0.0470, 0.0023]])
    """

    def __init__(self, inner: Temperature, logit: Tensor) -> None:
        super().__init__()
        tempered = isinstance(inner.fusion(), TEMPERATURES)
        require(tempered, "inner must be softmax(β·logits) and leave the keys alone", type(inner).__name__)
        self.inner = inner
        self.heads, self.uses, self.changes_query = inner.heads, inner.uses, inner.changes_query
        self.logit = logit

    def fusion(self) -> Fusion:
        """As the inner normaliser declares."""
        return self.inner.fusion()

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """As the inner normaliser does."""
        return self.inner.prepare_query(query, n_keys)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """As the inner normaliser does."""
        return self.inner.inverse_temperature(stats)

    def sink(self) -> Tensor:
        """The given logit."""
        return self.logit
