"""A trained retriever on sets of any size, in bounded memory.

Sets are drawn in batches of about `ITEMS_A_BATCH` items. The logits of a batch are computed in chunks of items. Items
whose weight is below exp(−30) of the top item's for every β are then set aside: all of them together are less than
float32 can see beside it, and most items of a large set are such. For the others one pass sums exp(β (e_i − max e))·g_i
for all β at once. Per-item activations, the large arrays, never exceed one chunk; what grows with n is a few numbers
per item of a single set. What is drawn does not depend on the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop.studies.networks.fast_retriever import FlatParameters, activations, against_items, direction
from strop.studies.networks.retriever import RetrieverConfig
from strop.studies.problems.max_retrieval import MaxRetrieval, Sets

ITEMS_A_BATCH = 2**14
ITEMS_A_CHUNK = 2**14
NOTHING = 30.0
"""exp(−30) · 2^20 items is 1e-7 of the top item: half of float32's last digit."""


@dataclass(frozen=True)
class FrozenRetriever:
    """A trained retriever: its parameters and its shape."""

    params: FlatParameters
    config: RetrieverConfig

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], config: RetrieverConfig) -> FrozenRetriever:
        """Build from named weights."""
        return cls(FlatParameters(config).load(weights), config)


def draw_batches(task: MaxRetrieval, size: int, sets: int, generator: Generator) -> Iterator[Sets]:
    """Batches of about `ITEMS_A_BATCH` items until `sets` sets have come."""
    at_once = max(1, ITEMS_A_BATCH // size)
    for start in range(0, sets, at_once):
        yield task.sample(min(at_once, sets - start), size, generator)


class ItemStreamer:
    """Passes over the items of a batch with one buffer for their activations; about `chunk` items at a time."""

    def __init__(self, model: FrozenRetriever, chunk: int = ITEMS_A_CHUNK) -> None:
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

    def mix_items(self, top: TopItems, betas: Tensor) -> Tensor:
        """s = Σ softmax(β e)_i g_i for every β: betas [sets, rules] -> [sets, rules, width]."""
        shifted = top.logits - top.logits.amax(-1, keepdim=True)
        total = shifted.new_zeros(*betas.shape, self.model.config.width)
        norm = torch.zeros_like(betas)
        for part, g in self.chunks(top.values, top.classes):
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
class TopItems:
    """The items of each set with the largest logits, in falling order; all [sets, kept]."""

    logits: Tensor
    values: Tensor
    classes: Tensor

    @classmethod
    def of(cls, batch: Sets, logits: Tensor, least_beta: float) -> TopItems:
        """Keep what some β ≥ least_beta could give a weight that float32 sees; the same number from every set."""
        floor = logits.amax(-1, keepdim=True) - NOTHING / least_beta
        count = int((logits >= floor).sum(-1).max())
        top = logits.topk(count, dim=-1)
        return cls(top.values, batch.values.gather(1, top.indices), batch.classes.gather(1, top.indices))
