"""Fits that a rule may use, all from sizes seen in training or, for `gamma`, up to four times as large.

the paper's recipe  take sets whose maximal item did not get the top logit; find for each the β that maximises that
                    item's weight (`strop.evaluate.oracle.best_for`); regress β on H with a polynomial of degree 4
gamma               the β of best mean accuracy at each validation size, then log β = γ·log(n / t) by least squares,
                    t being the largest size in training
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Generator, Tensor

from strop.evaluate.frozen import Frozen, Streamer, draws
from strop.evaluate.oracle import best_for
from strop.evaluate.rules import TRAINED_SIZE
from strop.sharpness import RowStats
from strop.tasks.max_retrieval import MaxRetrieval


@torch.no_grad()
def survey(
    model: Frozen, task: MaxRetrieval, size: int, sets: int, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Entropy of every set [sets]; entropy and best β of the sets whose maximal item did not get the top logit."""
    entropies, hard, best = [], [], []
    items = Streamer(model)
    for batch in draws(task, size, sets, generator):
        logits = items.logits(batch)
        entropy = RowStats.of(logits).entropy
        true = batch.values.argmax(-1)
        missed = logits.argmax(-1) != true
        entropies.append(entropy)
        hard.append(entropy[missed])
        best.append(best_for(logits[missed], logits[missed].gather(1, true[missed].unsqueeze(1)).squeeze(1)))
    return torch.cat(entropies), torch.cat(hard), torch.cat(best)


def fit_polynomial(entropy: Sequence[float], beta: Sequence[float], degree: int = 4) -> tuple[float, ...]:
    """Least squares, highest power first; () when there are too few points to fit."""
    if len(entropy) < 10 * (degree + 1):
        return ()
    return tuple(float(c) for c in np.polyfit(np.asarray(entropy), np.asarray(beta), degree))


def fit_gamma(best: Mapping[int, float], trained: int = TRAINED_SIZE) -> float:
    """γ of β = (n / t)^γ from the best β at each size; sizes up to t, the largest in training, say nothing."""
    pairs = [(math.log(n / trained), math.log(beta)) for n, beta in best.items() if n > trained]
    return sum(x * y for x, y in pairs) / sum(x * x for x, _ in pairs)


def least(betas: Sequence[float], losses: Sequence[float]) -> float:
    """The β of least loss on a geometric grid, refined by a parabola in log β through the three lowest neighbours."""
    i = min(range(len(losses)), key=losses.__getitem__)
    if i in (0, len(losses) - 1):
        return betas[i]
    x = [math.log(b) for b in betas[i - 1 : i + 2]]
    y = losses[i - 1 : i + 2]
    curve = y[0] - 2 * y[1] + y[2]
    return math.exp(x[1] + 0.5 * (x[1] - x[0]) * (y[0] - y[2]) / curve) if curve > 0 else betas[i]
