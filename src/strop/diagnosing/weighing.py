"""What one row of attention does with the evidence: the keys that hold the answer.

For the visible logits e of a row, with p = softmax(e), evidence E and all other keys O:

    weight        Σ_E p, what the evidence gets
    held          Σ p over the keys of E that hold the right token; over all of E where none does
    rival         Σ p over the keys outside E that hold the token which the model writes
    rank          1 + how many of O have a larger logit than the best of E: 1 means that it comes first
    margin        max_E e − max_O e: positive exactly where the rank is 1 and no other key ties
    beta          the least β ≥ 1 at which softmax(β·e) gives the evidence half the weight or more; ∞ where none up to
                  MOST does. It needs |E|·exp(β·margin) ≥ 1, so a row that ranks something else clearly first has none
    top           where the largest logit is, and `top_weight` what it gets
    entropy       H of p in nats; `n_keys` how many keys the row sees
    first_weight  p on the first token, `recent_weight` on the row's own and the 15 before it

A model's own sink key (gpt-oss) takes its share of every weight; β does not scale it. A row that sees no evidence gives
it weight 0, rank and β ∞, margin −∞.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from strop.patching.measure import RECENT

MOST = 32.0
"""β beyond which nobody would go: it is as good as none."""

STEPS = 20
"""Steps of the search from 1 to MOST, each by the same factor."""

HALVINGS = 12
"""Halvings of the step in which half the weight is reached: β is right to 5 parts in 100,000."""


class Weighed(NamedTuple):
    """The numbers of every row, [*rows]."""

    weight: Tensor
    held: Tensor
    rival: Tensor
    rank: Tensor
    margin: Tensor
    beta: Tensor
    top: Tensor
    top_weight: Tensor
    entropy: Tensor
    n_keys: Tensor
    first_weight: Tensor
    recent_weight: Tensor


NUMBERS = Weighed._fields


def weigh(
    logits: Tensor, keep: Tensor, evidence: Tensor, right: Tensor, written: Tensor, own: Tensor,
    sink: Tensor | None = None,
) -> Weighed:  # fmt: skip
    """Weigh the evidence in rows of logits [*rows, n].

    `keep`, `evidence` and the keys that hold the `right` token or the `written` one are bool, broadcast to the logits.
    `own` [*rows] is each row's own key, and `sink` the logit of a key that holds nothing; both broadcast to the rows.
    """
    keep, evidence = (each.expand(logits.shape) for each in (keep, evidence & keep))
    logits = torch.where(keep, logits, -math.inf)
    total = logits.logsumexp(-1)
    total = total if sink is None else torch.logaddexp(total, sink.to(total))
    p = (logits - total[..., None]).exp()
    best, other = (logits.masked_fill(~side, -math.inf).amax(-1) for side in (evidence, ~evidence))
    ahead = (logits > best[..., None]).sum(-1)
    blind = ~evidence.any(-1)
    weight, top = (p * evidence).sum(-1), logits.argmax(-1)
    distance = own[..., None] - torch.arange(logits.shape[-1], device=logits.device)
    return Weighed(
        weight=weight,
        held=torch.where((evidence & right).any(-1), (p * (evidence & right)).sum(-1), weight),
        rival=(p * (written & ~evidence)).sum(-1),
        rank=torch.where(blind, math.inf, 1.0 + ahead),
        margin=torch.where(blind, -math.inf, best - other),
        beta=find_beta(logits, evidence, weight, (best - other).masked_fill(blind, -math.inf), sink),
        top=top.to(p),
        top_weight=p.amax(-1),
        entropy=-torch.xlogy(p, p).sum(-1),
        n_keys=keep.sum(-1).to(p),
        first_weight=p.gather(-1, keep.long().argmax(-1, keepdim=True))[..., 0],
        recent_weight=(p * ((distance >= 0) & (distance < RECENT))).sum(-1),
    )


def find_beta(logits: Tensor, evidence: Tensor, weight: Tensor, margin: Tensor, sink: Tensor | None = None) -> Tensor:
    """Return the least β ≥ 1 that gives the evidence half the weight, ∞ where none does; hidden logits are −inf.

    Rows for which none can are not searched: β·margin ≥ −log |E| must hold for a β ≥ 1.
    """
    beta = torch.where(weight >= 0.5, 1.0, math.inf).to(logits)
    hopeful = (weight < 0.5) & (margin >= -evidence.sum(-1).clamp(min=1).log())
    if not bool(hopeful.any()):
        return beta
    rows, side = logits[hopeful], evidence[hopeful]
    rows, shift = rows - rows.amax(-1, keepdim=True), rows.amax(-1)
    resting = None if sink is None else (sink.to(rows).expand(hopeful.shape)[hopeful], shift)
    grid = [MOST ** (i / STEPS) for i in range(STEPS + 1)]
    low, high = torch.full_like(shift, math.inf), torch.full_like(shift, math.inf)
    for below, step in pairwise(grid):
        reached = high.isinf() & (_lead(rows, side, torch.full_like(shift, step), resting) >= 0)
        low, high = (torch.where(reached, value, old) for value, old in ((below, low), (step, high)))
        if not bool(high.isinf().any()):
            break
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        reached = _lead(rows, side, middle, resting) >= 0
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    beta[hopeful] = high
    return beta


def _lead(rows: Tensor, side: Tensor, beta: Tensor, resting: tuple[Tensor, Tensor] | None) -> Tensor:
    """log of the evidence's weight less log of all other weight at β; the largest logit of each row is 0."""
    finite = torch.where(beta.isinf(), 1.0, beta)  # rows without one
    p = (finite[:, None] * rows).exp()
    held = (p * side).sum(-1)
    rest = (p * ~side).sum(-1)
    if resting is not None:
        sink, shift = resting
        rest = rest + (sink - finite * shift).exp()
    return held.log() - rest.log()
