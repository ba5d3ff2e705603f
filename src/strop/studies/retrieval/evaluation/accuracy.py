"""How often a frozen retriever is right at one size, under every rule and on the same sets.

Beside the rules stand `hard` (the top logit takes all), `true maximum` (the readout is fed the maximal item alone) and
two ceilings that no rule can reach: `oracle weight` and `oracle any`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from strop.sharpness import RowStats
from strop.studies.networks.fast_retriever import activations, readout
from strop.studies.problems.max_retrieval import MaxRetrieval, Sets
from strop.studies.retrieval.evaluation.frozen_retriever import (
    ITEMS_A_CHUNK,
    FrozenRetriever,
    ItemStreamer,
    TopItems,
    draw_batches,
)
from strop.studies.retrieval.evaluation.temperature_rules import Rule
from strop.studies.retrieval.evaluation.temperature_solver import beta_for_item


@dataclass
class Tally:
    """Sums over sets at one size. `correct` and `nll` have one entry for each row of the table."""

    sets: int
    correct: dict[str, float]
    nll: dict[str, float]
    beta: dict[str, float]
    statistics: dict[str, float]

    def mean(self) -> Tally:
        """Turn sums into means over sets."""
        parts = [{k: v / self.sets for k, v in d.items()} for d in (self.correct, self.nll, self.beta, self.statistics)]
        return Tally(self.sets, *parts)


@torch.no_grad()
def evaluate_size(
    model: FrozenRetriever,
    task: MaxRetrieval,
    size: int,
    sets: int,
    generator: Generator,
    rules: Mapping[str, Rule],
    grid: Mapping[str, Rule] | None = None,
    tick: Callable[[int], None] | None = None,
    chunk: int = ITEMS_A_CHUNK,
) -> Tally:
    """Means over `sets` fresh sets of `size` items, under every rule, every rule of `grid`, and the oracles."""
    total: Tally | None = None
    items = ItemStreamer(model, chunk)
    for batch in draw_batches(task, size, sets, generator):
        part = _evaluate_batch(items, batch, rules, grid or {})
        total = part if total is None else _add(total, part)
        if tick is not None:
            tick(len(batch.target))
    assert total is not None
    return total.mean()


def _evaluate_batch(items: ItemStreamer, batch: Sets, rules: Mapping[str, Rule], grid: Mapping[str, Rule]) -> Tally:
    model, logits = items.model, items.logits(batch)
    stats = RowStats.of(logits)
    top, true = logits.argmax(-1), batch.values.argmax(-1)
    wanted = logits.gather(1, true.unsqueeze(1)).squeeze(1)
    top_items, betas = _find_betas(batch, logits, stats, wanted, {**rules, **grid})
    soft = items.mix_items(top_items, torch.stack(list(betas.values()), 1))
    alone = torch.stack([_read_alone(model, batch, item) for item in (top, true)], 1)
    names = [*betas, "hard", "true maximum"]
    score, nll = _score_rows(model, torch.cat([soft, alone], 1), batch.target)
    reach = [i for i, name in enumerate(names) if name in grid or name == "hard"]
    correct = dict(zip(names, score.sum(0).tolist(), strict=True))
    correct["oracle any"] = float(score[:, reach].amax(1).sum())
    statistics = {
        "entropy": stats.entropy,
        "top weight": stats.top_weight,
        "spread": stats.spread,
        "top is true": (top == true).float(),
        "top has true class": _same_class(batch, top, true),
    }
    sums = {name: float(value.double().sum()) for name, value in statistics.items()}
    mean_beta = {name: float(beta.double().sum()) for name, beta in betas.items()}
    return Tally(len(top), correct, dict(zip(names, nll.sum(0).tolist(), strict=True)), mean_beta, sums)


def _find_betas(
    batch: Sets, logits: Tensor, stats: RowStats, wanted: Tensor, rules: Mapping[str, Rule], least: float = 1.0
) -> tuple[TopItems, dict[str, Tensor]]:
    """The items that matter and β of every rule [sets]; a rule below `least` means that more items matter."""
    top_items = TopItems.of(batch, logits, least)
    betas = {name: rule(top_items.logits, stats).expand(len(logits)) for name, rule in rules.items()}
    betas["oracle weight"] = beta_for_item(top_items.logits, wanted, low=1.0)
    smallest = min(float(beta.min()) for beta in betas.values())
    if smallest < least and smallest > 0:
        return _find_betas(batch, logits, stats, wanted, rules, smallest)
    return top_items, betas


def _read_alone(model: FrozenRetriever, batch: Sets, item: Tensor) -> Tensor:
    """g of one item of each set: what attention returns when that item takes all."""
    index = item.unsqueeze(1)
    values, classes = batch.values.gather(1, index), batch.classes.gather(1, index)
    return activations(model.params, values, classes, model.config).squeeze(1)


def _score_rows(model: FrozenRetriever, s: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Right or wrong (1 or 0) and −log p(target), [sets, rows] in float64, from s [sets, rows, width]."""
    sets, rows, width = s.shape
    logits = readout(model.params, s.reshape(sets * rows, width), model.config)[0]
    wanted = target.repeat_interleave(rows)
    nll = F.cross_entropy(logits, wanted, reduction="none")
    return (logits.argmax(-1) == wanted).double().view(sets, rows), nll.double().view(sets, rows)


def _same_class(batch: Sets, top: Tensor, true: Tensor) -> Tensor:
    pick = [batch.classes.gather(1, i.unsqueeze(1)) for i in (top, true)]
    return (pick[0] == pick[1]).squeeze(1).float()


def _add(a: Tally, b: Tally) -> Tally:
    pairs = ((a.correct, b.correct), (a.nll, b.nll), (a.beta, b.beta), (a.statistics, b.statistics))
    return Tally(a.sets + b.sets, *({k: x[k] + y[k] for k in x} for x, y in pairs))
