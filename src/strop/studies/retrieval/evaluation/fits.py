"""Fits that a rule may use, all from sizes seen in training or, for `gamma`, up to four times as large.

the paper's recipe  take sets whose maximal item did not get the top logit; find for each the β that maximises that
                    item's weight (`beta_for_item`); regress β on H with a polynomial of degree 4
gamma               the β of best mean accuracy at each validation size, then log β = γ·log(n / t) by least squares,
                    t being the largest size in training
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from strop.records import Record, whole
from strop.sharpness import RowStats
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.retrieval.evaluation.frozen_retriever import FrozenRetriever, ItemStreamer, draw_batches
from strop.studies.retrieval.evaluation.temperature_rules import TRAINED_SIZE, Fitted
from strop.studies.retrieval.evaluation.temperature_solver import beta_for_item


@torch.no_grad()
def survey_size(
    model: FrozenRetriever, task: MaxRetrieval, size: int, sets: int, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Entropy of every set [sets]; entropy and best β of the sets whose maximal item did not get the top logit."""
    entropies, hard, best = [], [], []
    items = ItemStreamer(model)
    for batch in draw_batches(task, size, sets, generator):
        logits = items.logits(batch)
        entropy = RowStats.of(logits).entropy
        true = batch.values.argmax(-1)
        missed = logits.argmax(-1) != true
        entropies.append(entropy)
        hard.append(entropy[missed])
        best.append(beta_for_item(logits[missed], logits[missed].gather(1, true[missed].unsqueeze(1)).squeeze(1)))
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


def refine_minimum(betas: Sequence[float], losses: Sequence[float]) -> float:
    """The β of least loss on a geometric grid, refined by a parabola in log β through the three lowest neighbours."""
    i = min(range(len(losses)), key=losses.__getitem__)
    if i in (0, len(losses) - 1):
        return betas[i]
    x = [math.log(b) for b in betas[i - 1 : i + 2]]
    y = losses[i - 1 : i + 2]
    curve = y[0] - 2 * y[1] + y[2]
    return math.exp(x[1] + 0.5 * (x[1] - x[0]) * (y[0] - y[2]) / curve) if curve > 0 else betas[i]


def fit_rules(surveys: Iterable[Record], trained: int) -> dict[tuple[str, str], Fitted]:
    """The numbers of the rules, for each setting and kind of weights, pooled over seeds."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in surveys:
        groups.setdefault((str(record["setting"]), str(record["weights"])), []).append(record)
    return {key: _fit_group(rows, trained) for key, rows in groups.items()}


def describe_fit(setting: str, weights: str, fitted: Fitted) -> Record:
    """What was fitted for one group of models, as a record."""
    out: Record = {"setting": setting, "weights": weights, "what": "fit", "trained": fitted.trained}
    out |= {"train entropy": fitted.train_entropy, "gamma": fitted.gamma}
    return out | {f"refit H^{len(fitted.refit) - 1 - i}": c for i, c in enumerate(fitted.refit)}


def _fit_group(rows: Sequence[Record], trained: int) -> Fitted:
    examples: list[dict[str, Any]] = [dict(row) for row in rows if row["what"] == "example"]
    entropy: list[Any] = [row["value"] for row in rows if row["what"] == "train entropy"]
    best = {
        n: refine_minimum(list(at), [-sum(v) / len(v) for v in at.values()]) for n, at in _grid_accuracies(rows).items()
    }
    return Fitted(
        refit=fit_polynomial([e["entropy"] for e in examples], [e["beta"] for e in examples]),
        train_entropy=sum(entropy) / len(entropy),
        gamma=fit_gamma(best, trained),
        trained=trained,
    )


def _grid_accuracies(rows: Sequence[Record]) -> dict[int, dict[float, list[Any]]]:
    """Size → constant β → the accuracy of each seed, at the validation sizes."""
    grid: dict[int, dict[float, list[Any]]] = {}
    for row in rows:
        if row["what"] == "validation" and row["grid"]:
            at = grid.setdefault(whole(row["n"]), {})
            at.setdefault(float(str(row["rule"]).split()[1]), []).append(row["accuracy"])
    return grid
