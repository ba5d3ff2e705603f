"""What a normaliser is: the step from a row of logits to the weights of its keys.

There are two ways in. A `Temperature` answers one question, which β belongs to a row, and every implementation of
attention can run it. Any other rule is a `Normaliser` that writes `weights(logits, keep)`; the implementations that
hold whole rows can run it. What a fused kernel may assume, each normaliser declares of itself (`fusion`; fusion.py
lists the declarations).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from strop._checks import require
from strop._types import Keep, Logits, Rows, Weights
from strop.errors import UnsupportedError
from strop.normalisers.fusion import CountBeta, Dense, Fusion, StatsBeta
from strop.sharpness import RowStats, upcast


class Normaliser(nn.Module):
    """A rule that turns the logits of a row into the weights of its keys.

    It takes logits [*batch, n_q, n_k] and returns weights of the same shape. It is a torch module, so learned ones
    train, move and save like any other. Give it to `strop.attention`, or call it on logits.

    To write one, define `weights(logits, keep)`; for softmax(β·logits) derive from `Temperature` instead, which is
    faster. `keep` is True where a row may look. Hidden keys have weight 0, and a row that sees no key has zero weights,
    always. A normaliser may also change the query (`prepare_query`) or the keys (`prepare_key`) before the logits are
    formed, and read the query beside the logits (`weights_of`).

    Attributes:
        name: The short name under which `attention` and the command line know it. Empty for a helper.
        rowwise: The weights of a row depend on that row's logits alone, and on its query in `weights_of`. One whose
            rows depend on each other, or on other heads, says False and runs in `reference` only.
        simplex: The weights are at least 0 and sum to at most 1, so that their entropy means something. No entropy is
            reported for the weights of one that says False.
        additive: Numbers may be added to the logits, as by an additive mask or ALiBi. `attention` refuses them
            otherwise.
        changes_query: `prepare_query` does something. Set automatically for a class that defines it.
        logits_alone: The keys enter as they are, and the logits alone decide. Set to False automatically for a class
            that defines `prepare_key` or `weights_of`.
        heads: The number of heads where parameters are per head; logits must then be [*batch, heads, n_q, n_k].

    Examples:
        >>> import torch
        >>> from strop.normalisers import Normaliser
        >>> class Squares(Normaliser):
        ...     def weights(self, logits, keep=None):
        ...         squares = logits.square() if keep is None else logits.square() * keep
        ...         return squares / squares.sum(-1, keepdim=True).clamp(min=1e-9)
        >>> Squares()(torch.tensor([[3.0, 1.0, 0.0]]))
        tensor([[0.9000, 0.1000, 0.0000]])
    """

    name: ClassVar[str] = ""
    rowwise: bool = True
    simplex: bool = True
    additive: bool = True
    changes_query: bool = False
    logits_alone: bool = True
    heads: int | None = None

    def __init_subclass__(cls, **settings: Any) -> None:
        """Take back an inherited declaration that no longer holds (fusion.py says why)."""
        super().__init_subclass__(**settings)
        own = vars(cls)
        cls.changes_query = cls.changes_query or "prepare_query" in own
        cls.logits_alone = cls.logits_alone and not own.keys() & {"prepare_key", "weights_of"}
        if "fusion" not in own and own.keys() & {"weights", "weights_of", "prepare_key"}:
            type.__setattr__(cls, "fusion", Normaliser.fusion)
        elif "fusion" not in own and "inverse_temperature" in own:
            type.__setattr__(cls, "fusion", Temperature.fusion)

    def fusion(self) -> Fusion:
        """Return what a fused kernel must know; `Dense` where only whole rows will do."""
        return Dense()

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
        raise UnsupportedError(f"{type(self).__name__} must define weights(logits, keep).")

    def forward(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Same as `weights`, so that a normaliser can stand where a module is called."""
        return self.weights(logits, keep)


class Temperature(Normaliser):
    """The family of softmax(β·logits), in which β depends on the row.

        weights = softmax(β·e)
        weights = softmax(β·e)·σ(logsumexp(β·e) − sink)        with a sink, a logit that takes weight and holds no value

    To write one, define `inverse_temperature(stats)`, which returns β for every row from its `RowStats`. Every
    implementation of attention can then run it, since β only scales the query of an ordinary kernel. Parameters may be
    learned. A temperature may change the query, but not the keys.

    Attributes:
        uses: What β depends on: "constant", "n_keys" or "entropy". Unless it says "entropy", all statistics but n_keys
            may be unknown (NaN), and β costs no pass over the keys. max and min may be unknown in any case.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Temperature
        >>> class SharperWhereBlunt(Temperature):
        ...     uses = "entropy"
        ...     def inverse_temperature(self, stats):
        ...         return 1.0 + stats.entropy
        >>> SharperWhereBlunt().weights(torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
        tensor([[0.8434, 0.1350, 0.0216],
                [0.3333, 0.3333, 0.3333]])
    """

    uses: Literal["constant", "n_keys", "entropy"] = "entropy"

    def fusion(self) -> Fusion:
        """β by `inverse_temperature`, from counts or from measured statistics."""
        return StatsBeta() if self.uses == "entropy" else CountBeta()

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """Return β for every row, broadcastable to [*batch, n_q]."""
        raise UnsupportedError(f"{type(self).__name__} must define inverse_temperature(stats).")

    def sink(self) -> Tensor | None:
        """Logit of an extra key that holds no value, broadcastable to [*batch, n_q]; None for no such key."""
        return None

    def find_beta(self, measure: Callable[[], RowStats], count: Callable[[], RowStats]) -> Rows:
        """Return β for every row from what it depends on: `measure` is called only where counts do not suffice."""
        return self.inverse_temperature(measure() if self.uses == "entropy" else count())

    def sink_share(self, logsumexp: Callable[[], Rows]) -> Rows | None:
        """Return what the sink leaves to the keys, σ(logsumexp(β·logits) − sink); None without a sink."""
        sink = self.sink()
        return None if sink is None else torch.sigmoid(logsumexp() - sink)

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """Softmax of β·logits over the visible keys, less what the sink takes."""
        logits = upcast(logits)
        measure = partial(RowStats.of, logits, keep)
        beta = self.find_beta(measure, measure)
        tempered = beta[..., None] * logits
        weights = softmax(tempered, keep)
        share = self.sink_share(lambda: RowStats.of(tempered, keep).logsumexp)
        return weights if share is None else weights * share[..., None]


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
