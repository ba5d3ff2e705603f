"""Inverse temperatures that no rule could know: solved for each row from its logits, by bisection on log β.

beta_for_entropy  the β at which H(softmax(β e)) equals a given entropy; H falls in β (Proposition 3.2): there is one
beta_for_item     the β that maximises the weight of item m: log p_m = β e_m − logsumexp(β e) is concave in β, and its
                  slope e_m − E_β[e] vanishes where the expected logit equals e_m; the cap if m holds the top logit
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

BETA_CAP = 64.0
"""The largest β that is ever tried: at this one the retriever's attention is as good as hard."""
BISECTIONS = 12


def entropy_and_mean(logits: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """H of softmax(β e) and E_β[e], for logits [rows, n] and beta [rows]."""
    shifted = logits - logits.amax(-1, keepdim=True)
    weights = (shifted * beta.unsqueeze(-1)).clamp_(min=-80.0).exp_()  # less is a denormal number, and slow
    total = weights.sum(-1)
    mean = weights.mul_(shifted).sum(-1) / total
    return total.log() - beta * mean, mean + logits.amax(-1)


def beta_for_entropy(logits: Tensor, target: float) -> Tensor:
    """β ≥ 1 at which each row's entropy is `target`; 1 for a row that is sharper already."""
    return _bisect(lambda beta: entropy_and_mean(logits, beta)[0] > target, logits, low=1.0)


def beta_for_item(logits: Tensor, wanted: Tensor, low: float = 1 / 16) -> Tensor:
    """β in [low, BETA_CAP] that gives the item whose logit is `wanted` [rows] the largest weight in its row."""
    leads = wanted >= logits.amax(-1)  # by itself, as rounding may bring the mean up to the top logit below the cap
    return _bisect(lambda beta: leads | (entropy_and_mean(logits, beta)[1] < wanted), logits, low)


def _bisect(sharpen: Callable[[Tensor], Tensor], logits: Tensor, low: float) -> Tensor:
    """Largest log β in [log low, log BETA_CAP] at which `sharpen(β)` still asks for more, row by row."""
    down = logits.new_full(logits.shape[:-1], math.log(low))
    up = logits.new_full(logits.shape[:-1], math.log(BETA_CAP))
    down = torch.where(sharpen(up.exp()), up, down)
    for _ in range(BISECTIONS):
        middle = (down + up) / 2
        more = sharpen(middle.exp())
        down, up = torch.where(more, middle, down), torch.where(more, up, middle)
    return down.exp()
