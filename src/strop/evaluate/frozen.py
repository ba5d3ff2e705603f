"""A frozen retriever at any set size: accuracy under every rule, on the same sets, in bounded memory.

Sets are drawn in batches of about `DRAW` items. The logits of a batch are computed in chunks of items. Items whose
weight is below exp(−30) of the top item's for every β are then set aside: all of them together are less than float32
can see beside it, and most items of a large set are such. For the others one pass sums exp(β (e_i − max e))·g_i for
all rules at once. Per-item activations, the large arrays, never exceed one chunk; what grows with n is a few numbers
per item of a single set. What is drawn does not depend on the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from strop.evaluate.oracle import best_for
from strop.evaluate.rules import Rule
from strop.models.factorised import Flat, activations, against_items, direction, readout
from strop.models.retriever import RetrieverConfig
from strop.sharpness import RowStats
from strop.tasks.max_retrieval import MaxRetrieval, Sets

DRAW = 2**14
CHUNK = 2**14
NOTHING = 30.0
"""exp(−30) · 2^20 items is 1e-7 of the top item: half of float32's last digit."""


@dataclass(frozen=True)
class Frozen:
    """A trained retriever: its parameters and its shape."""

    params: Flat
    config: RetrieverConfig

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], config: RetrieverConfig) -> Frozen:
        """Build from named weights."""
        return cls(Flat(config).load(weights), config)


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


def draws(task: MaxRetrieval, size: int, sets: int, generator: Generator) -> Iterator[Sets]:
    """Batches of about `DRAW` items until `sets` sets have come."""
    at_once = max(1, DRAW // size)
    for start in range(0, sets, at_once):
        yield task.sample(min(at_once, sets - start), size, generator)


@torch.no_grad()
def evaluate(
    model: Frozen,
    task: MaxRetrieval,
    size: int,
    sets: int,
    generator: Generator,
    rules: Mapping[str, Rule],
    grid: Mapping[str, Rule] | None = None,
    tick: Callable[[int], None] | None = None,
    chunk: int = CHUNK,
) -> Tally:
    """Means over `sets` fresh sets of `size` items, under every rule, every rule of `grid`, and the oracles."""
    total: Tally | None = None
    items = Streamer(model, chunk)
    for batch in draws(task, size, sets, generator):
        part = _batch(items, batch, rules, grid or {})
        total = part if total is None else _add(total, part)
        if tick is not None:
            tick(len(batch.target))
    assert total is not None
    return total.mean()


class Streamer:
    """Passes over the items of a batch with one buffer for their activations."""

    def __init__(self, model: Frozen, chunk: int = CHUNK) -> None:
        self.model, self.chunk = model, chunk
        self._buffer = torch.empty(0, model.config.width)

    def chunks(self, values: Tensor, classes: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """(columns, g [sets, columns, width]) over items [sets, n], about `chunk` at a time; use g before the next."""
        sets, n = values.shape
        width = max(1, self.chunk // sets)
        for start in range(0, n, width):
            part = slice(start, start + width)
            yield part, self._activations(values[:, part], classes[:, part])

    def logits(self, batch: Sets) -> Tensor:
        """Attention logits [sets, n], up to a constant for each set."""
        u = direction(self.model.params, batch.query, self.model.config)[0]
        return torch.cat([against_items(u, g) for _, g in self.chunks(batch.values, batch.classes)], dim=1)

    def weighted(self, kept: Kept, betas: Tensor) -> Tensor:
        """s = Σ softmax(β e)_i g_i for every β: betas [sets, rules] -> [sets, rules, width]."""
        shifted = kept.logits - kept.logits.amax(-1, keepdim=True)
        total = shifted.new_zeros(*betas.shape, self.model.config.width)
        norm = torch.zeros_like(betas)
        for part, g in self.chunks(kept.values, kept.classes):
            weights = betas.unsqueeze(-1) * shifted[:, part].unsqueeze(1)
            weights.clamp_(min=-80.0).exp_()  # less is a denormal number, which is slow, and nothing beside 1
            norm += weights.sum(-1)
            total.baddbmm_(weights, g)
        return total / norm.unsqueeze(-1)

    def _activations(self, values: Tensor, classes: Tensor) -> Tensor:
        if len(self._buffer) < values.numel():
            self._buffer = torch.empty(values.numel(), self.model.config.width)
        return activations(self.model.params, values, classes, self.model.config, self._buffer[: values.numel()])


@dataclass(frozen=True)
class Kept:
    """The items of each set with the largest logits, in falling order; all [sets, kept]."""

    logits: Tensor
    values: Tensor
    classes: Tensor

    @classmethod
    def of(cls, batch: Sets, logits: Tensor, least_beta: float) -> Kept:
        """Keep what some β ≥ least_beta could give a weight that float32 sees; the same number from every set."""
        floor = logits.amax(-1, keepdim=True) - NOTHING / least_beta
        count = int((logits >= floor).sum(-1).max())
        top = logits.topk(count, dim=-1)
        return cls(top.values, batch.values.gather(1, top.indices), batch.classes.gather(1, top.indices))


def _batch(items: Streamer, batch: Sets, rules: Mapping[str, Rule], grid: Mapping[str, Rule]) -> Tally:
    model, logits = items.model, items.logits(batch)
    stats = RowStats.of(logits)
    top, true = logits.argmax(-1), batch.values.argmax(-1)
    wanted = logits.gather(1, true.unsqueeze(1)).squeeze(1)
    kept, betas = _betas(batch, logits, stats, wanted, {**rules, **grid})
    soft = items.weighted(kept, torch.stack(list(betas.values()), 1))
    alone = torch.stack([_alone(model, batch, item) for item in (top, true)], 1)
    names = [*betas, "hard", "true maximum"]
    score, nll = _score(model, torch.cat([soft, alone], 1), batch.target)
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


def _betas(
    batch: Sets, logits: Tensor, stats: RowStats, wanted: Tensor, rules: Mapping[str, Rule], least: float = 1.0
) -> tuple[Kept, dict[str, Tensor]]:
    """The items that matter and β of every rule [sets]; a rule below `least` means that more items matter."""
    kept = Kept.of(batch, logits, least)
    betas = {name: rule(kept.logits, stats).expand(len(logits)) for name, rule in rules.items()}
    betas["oracle weight"] = best_for(kept.logits, wanted, low=1.0)
    smallest = min(float(beta.min()) for beta in betas.values())
    if smallest < least and smallest > 0:
        return _betas(batch, logits, stats, wanted, rules, smallest)
    return kept, betas


def _alone(model: Frozen, batch: Sets, item: Tensor) -> Tensor:
    """g of one item of each set: what attention returns when that item takes all."""
    index = item.unsqueeze(1)
    values, classes = batch.values.gather(1, index), batch.classes.gather(1, index)
    return activations(model.params, values, classes, model.config).squeeze(1)


def _score(model: Frozen, s: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
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
