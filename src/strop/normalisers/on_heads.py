"""A normaliser for some heads and another for the rest, as one normaliser, so that one call of attention serves both.

    weights of head h = chosen(logits_h) for h in `heads`, others(logits_h) elsewhere

Two temperature normalisers give a temperature normaliser (β and the sink are picked head by head), so every fast
implementation still runs it. Of any other pair both are computed, and the weights are picked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from strop._checks import require
from strop._types import Keep, Logits, Rows, Weights
from strop.normalisers.base import Normaliser, Temperature
from strop.normalisers.fusion import TEMPERATURES, Fusion
from strop.sharpness import RowStats

_ORDER: tuple[Literal["constant", "n_keys", "entropy"], ...] = ("constant", "n_keys", "entropy")


class _OnHeads(Normaliser):
    def __init__(self, picked: Tensor, chosen: Normaliser, others: Normaliser) -> None:
        super().__init__()
        self.heads = len(picked)
        self.picked, self.chosen, self.others = picked, chosen, others
        self.rowwise = chosen.rowwise and others.rowwise
        self.simplex = chosen.simplex and others.simplex
        self.additive = chosen.additive and others.additive
        self.changes_query = chosen.changes_query or others.changes_query
        self.logits_alone = chosen.logits_alone and others.logits_alone

    def _pick(self, chosen: Tensor, others: Tensor, axes: int) -> Tensor:
        place = max(chosen, others, key=Tensor.dim).device  # a number without axes goes with tensors of any device
        picked = self.picked.to(place).view(-1, *[1] * axes)
        return torch.where(picked, chosen, others)

    def prepare_query(self, query: Tensor, n_keys: Rows) -> Tensor:
        """As each head's own normaliser does."""
        chosen, others = self.chosen.prepare_query(query, n_keys), self.others.prepare_query(query, n_keys)
        return query if chosen is query and others is query else self._pick(chosen, others, 2)

    def prepare_key(self, key: Tensor) -> Tensor:
        """As each head's own normaliser does."""
        chosen, others = self.chosen.prepare_key(key), self.others.prepare_key(key)
        return key if chosen is key and others is key else self._pick(chosen, others, 2)


class NormaliserOnHeads(_OnHeads):
    """Any two normalisers: both are computed, and the weights picked head by head."""

    def weights_of(self, query: Tensor, logits: Logits, keep: Keep | None = None) -> Weights:
        """The weights of each head's own normaliser."""
        chosen, others = (normaliser.weights_of(query, logits, keep) for normaliser in (self.chosen, self.others))
        return self._pick(chosen, others, 2)

    def weights(self, logits: Logits, keep: Keep | None = None) -> Weights:
        """The weights of each head's own normaliser."""
        return self._pick(self.chosen.weights(logits, keep), self.others.weights(logits, keep), 2)


class TemperatureOnHeads(_OnHeads, Temperature):
    """Two temperature normalisers: β and the sink are picked head by head, and attention is computed once."""

    chosen: Temperature
    others: Temperature

    def __init__(self, picked: Tensor, chosen: Temperature, others: Temperature) -> None:
        super().__init__(picked, chosen, others)
        self.uses = max(chosen.uses, others.uses, key=_ORDER.index)

    def fusion(self) -> Fusion:
        """β by `inverse_temperature`, from as much as the more demanding of the two needs."""
        return Temperature.fusion(self)

    def inverse_temperature(self, stats: RowStats) -> Rows:
        """β of each head's own normaliser."""
        return self._pick(self.chosen.inverse_temperature(stats), self.others.inverse_temperature(stats), 1)

    def sink(self) -> Tensor | None:
        """The sink of each head's own normaliser; −inf, which takes nothing, for a head without one."""
        chosen, others = self.chosen.sink(), self.others.sink()
        if chosen is None and others is None:
            return None
        sinks = [torch.tensor(-torch.inf) if sink is None else sink for sink in (chosen, others)]
        dtype = next((sink.dtype for sink in sinks if sink.ndim), torch.float32)  # numbers follow tensors, as in torch
        return self._pick(sinks[0].to(dtype), sinks[1].to(dtype), 1)


def on_heads(heads: Sequence[int], n_heads: int, chosen: Normaliser, others: Normaliser) -> Normaliser:
    """Return `chosen` on the given heads and `others` on the rest of `n_heads`."""
    wrong = [head for head in heads if not 0 <= head < n_heads]
    require(not wrong, f"heads must lie in 0..{n_heads - 1}", wrong, "Heads are counted as query heads, from 0")
    picked = torch.zeros(n_heads, dtype=torch.bool)
    picked[list(heads)] = True
    if isinstance(chosen, Temperature) and isinstance(others, Temperature) and _tempers(chosen) and _tempers(others):
        return TemperatureOnHeads(picked, chosen, others)
    return NormaliserOnHeads(picked, chosen, others)


def _tempers(normaliser: Normaliser) -> bool:
    return isinstance(normaliser.fusion(), TEMPERATURES)
