"""Batches without answers: a longer context must not make the end of a text less likely than a shorter one did.

    loss = mean over the last places of max(0, long − short)

`long` is −log p of a token after the whole window, with the edge on; `short` is that of the untouched model after only
`trusted` tokens, a length at which it is known to be well. Where the long context is no worse there is nothing to mend,
and no gradient. Windows come in two kinds:

    tail   a text as it is; the short context is its end
    echo   a text whose end says again what it said before: an excerpt from its first half; the short context is the
           text up to that excerpt. What is to be found is known, without anybody's answers, and far away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from strop._checks import require


@dataclass(frozen=True)
class Tail:
    """One window [1, n] and the untouched model's losses [places] on its end after a short context."""

    ids: Tensor
    short: Tensor

    def loss(self, model: nn.Module) -> Tensor:
        """Mean of what the long context costs, in nats."""
        return (_losses(model, self.ids, len(self.short)) - self.short).clamp(min=0.0).mean()


@torch.no_grad()
def make_tails(model: nn.Module, windows: Sequence[Tensor], trusted: int, first: int = 0) -> list[Tail]:
    """Return a batch for every window [1, n]: its end is half of the `trusted` last tokens.

    `first` tokens at the beginning are special ones, which the short context keeps.
    """
    places = trusted // 2
    made = []
    for ids in windows:
        require(ids.shape[1] > trusted > first + 1, "trusted must be shorter than every window", trusted)
        short = torch.cat([ids[:, :first], ids[:, ids.shape[1] - trusted + first :]], 1)
        made.append(Tail(ids, _losses(model, short, places)))
    return made


@torch.no_grad()
def make_echoes(
    model: nn.Module, windows: Sequence[Tensor], trusted: int, draw: Generator, first: int = 0
) -> list[Tail]:
    """Return a batch for every window [1, n], whose end becomes a quarter of `trusted` tokens from its first half."""
    places = trusted // 4
    made = []
    for ids in windows:
        n = ids.shape[1]
        require(n >= 2 * trusted and places > 0, "trusted must be at most half of every window", trusted)
        start, end = ids[:, :first], int(torch.randint(trusted - places, n // 2 + 1, (), generator=draw))
        excerpt, before = ids[:, end - places : end], ids[:, end - (trusted - places) + first : end]
        short = _losses(model, torch.cat([start, before, excerpt], 1), places)
        made.append(Tail(torch.cat([ids[:, : n - places], excerpt], 1), short))
    return made


def _losses(model: nn.Module, ids: Tensor, places: int) -> Tensor:
    """−log p of the last `places` tokens."""
    kept = slice(ids.shape[1] - places - 1, ids.shape[1] - 1)  # no tensor: the last layer may lie on another device
    out: Any = model(input_ids=ids, logits_to_keep=kept, use_cache=False)
    scores: Tensor = out.logits[0].float().log_softmax(-1).gather(-1, ids[0, -places:, None])[:, 0]
    return -scores
