"""Why hard attention errs: each class has its own logit curve, and close to the top the curves are not in line.

Within a class the logit rises with the value, so the top logit belongs to the largest item of *some* class. Between
classes an offset of d (in units of the value) puts a smaller item first as soon as the largest two are closer than d;
among n uniform values that gap is about 1/n. So an offset of 1e-3 begins to cost at a few hundred items, whatever the
temperature: β never changes an order.

    offsets      for each class, how much smaller a value may be and still tie with the average class, near value 1
    right order  P(top logit = maximal item), simulated from the largest item of each class: ten numbers a set
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from strop.studies.networks.fast_retriever import activations, direction
from strop.studies.retrieval.evaluation.frozen_retriever import FrozenRetriever

LAST_PART = 0.01
"""Offsets are measured on the last hundredth of the range of values."""


@dataclass(frozen=True)
class ClassOffsets:
    """The classes' logit curves at the top, averaged over queries: their mean slope, and how far each is ahead."""

    slope: float
    by_class: tuple[float, ...]

    @property
    def deviation(self) -> float:
        """Standard deviation of the offsets over classes, in units of the value."""
        return float(torch.tensor(self.by_class, dtype=torch.float64).std(correction=0))


@torch.no_grad()
def measure_offsets(model: FrozenRetriever, queries: int = 33) -> ClassOffsets:
    """Measure the class offsets of a model."""
    classes = model.config.classes
    query = torch.linspace(0, 1, queries)
    low, high = (
        _logits(model, torch.full((queries, classes), value), query).double() for value in (1 - LAST_PART, 1.0)
    )
    slope = (high - low) / LAST_PART
    level = (high + low) / 2
    ahead = (level - level.mean(1, keepdim=True)) / slope.mean(1, keepdim=True)
    return ClassOffsets(float(slope.mean()), tuple(ahead.mean(0).tolist()))


@torch.no_grad()
def simulate_right_order(model: FrozenRetriever, size: int, sets: int, generator: Generator) -> float:
    """Share of sets whose top logit is the maximal item, from the largest item of each class alone."""
    counts = _draw_counts(size, sets, model.config.classes, generator)
    uniform = torch.rand(counts.shape, generator=generator, dtype=torch.float64)
    largest = torch.where(counts > 0, uniform ** (1 / counts.clamp(min=1)), -1.0)
    logits = _logits(model, largest.float(), torch.rand(sets, generator=generator))
    logits = logits.masked_fill(counts == 0, -torch.inf)
    return float((logits.argmax(1) == largest.argmax(1)).double().mean())


def _logits(model: FrozenRetriever, values: Tensor, query: Tensor) -> Tensor:
    """Logits of one item of every class: values [sets, classes], query [sets] -> [sets, classes]."""
    classes = torch.arange(model.config.classes).expand(values.shape)
    g = activations(model.params, values, classes, model.config)
    u = direction(model.params, query, model.config)[0]
    return torch.einsum("sw,scw->sc", u, g)


def _draw_counts(size: int, sets: int, classes: int, generator: Generator) -> Tensor:
    """How many of `size` items fall into each class: multinomial, as a chain of binomials."""
    left = torch.full((sets,), float(size), dtype=torch.float64)
    columns = []
    for c in range(classes - 1):
        taken = torch.binomial(left, torch.full_like(left, 1 / (classes - c)), generator=generator)
        columns.append(taken)
        left = left - taken
    return torch.stack([*columns, left], 1)
