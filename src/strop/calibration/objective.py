"""What calibration wants: answers that are likelier, and on ordinary prose the model that it was.

    task     mean −log p(answer token), in nats
    lead     log p(answer token) − log p(best other token): what a guard may watch
    drift    mean over places in prose of KL(untouched ‖ sharpened), in nats a token
    harm     max(0, mean over a guarded group of loss now − loss of the untouched model)

The guard is other tasks, whose right answers must not suffer while one task is learned: prose alone does not protect
what prose seldom asks for, such as counting. What is gained on a guarded task counts for nothing. Within a group gains
and losses are set off: single prompts change by chance whatever is learned. A guarded loss is that of answers, or
mean log(1 + e^−lead), in which a wrong answer that overtakes counts.

The untouched model's log-probabilities are computed once, at every `STRIDE`-th place.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

from strop._checks import require
from strop.ranks import ranks_here
from strop.tasks.answers import Encoded, answer_loss, measure_leads

STRIDE = 5
"""Every fifth place of prose is compared: the rest says the same at five times the memory."""

Seen = Callable[[], None]
"""Told of every pass over the untouched model, for a progress bar."""

Mine = Callable[[int], bool]
"""Whether a window or a guarded task is one that this rank will look at."""


class Batch(Protocol):
    """Something that a model can do better or worse."""

    def loss(self, model: nn.Module) -> Tensor:
        """Return the loss, with gradients."""
        ...


@dataclass(frozen=True)
class Answers:
    """Questions with known answers."""

    passages: Sequence[Encoded]

    def loss(self, model: nn.Module) -> Tensor:
        """Mean negative log-likelihood of the answers' tokens."""
        return answer_loss(model, self.passages)


@dataclass(frozen=True)
class Leads:
    """Questions with known answers, each against the best wrong one: by that greedy decoding decides."""

    passages: Sequence[Encoded]

    def loss(self, model: nn.Module) -> Tensor:
        """Mean −log p(right | right or best wrong) over the answers' tokens."""
        return softplus(-torch.cat([measure_leads(model, one) for one in self.passages])).mean()


class Drift:
    """How far a model has moved on some windows of prose, each [1, n], from what it was when this was made."""

    @torch.no_grad()
    def __init__(
        self, model: nn.Module, windows: Sequence[Tensor], seen: Seen = lambda: None, mine: Mine = lambda _: True
    ) -> None:
        require(len(windows) > 0, "windows must hold at least one window of prose", "none")
        self.windows = list(windows)
        self.reference: dict[int, Tensor] = {}
        for i, ids in enumerate(windows):
            if mine(i):
                self.reference[i] = _log_probabilities(model, ids)
            seen()

    def of(self, model: nn.Module, index: int) -> Tensor:
        """KL(untouched ‖ sharpened) on one window, counted round."""
        at = index % len(self.windows)
        before, now = self.reference[at], _log_probabilities(model, self.windows[at])
        return (before.exp() * (before - now)).sum(-1).mean()

    def scores(self, model: nn.Module, draw: Generator) -> Iterator[tuple[Tensor, int]]:
        """Yield Σ log p(y) and its number of places for the shortest windows, y drawn from the untouched model."""
        shortest = min(ids.shape[1] for ids in self.windows)
        for i, before in self.reference.items():
            ids = self.windows[i]
            if ids.shape[1] > shortest:
                continue
            drawn = torch.multinomial(before[0].exp().cpu(), 1, generator=draw).to(before.device)
            yield _log_probabilities(model, ids)[0].gather(-1, drawn).sum(), len(drawn)

    @torch.no_grad()
    def worst(self, model: nn.Module) -> float:
        """The mean over windows of one length, at the length where it is largest."""
        found: dict[int, list[float]] = {}
        drifts = ranks_here().collect(len(self.windows), lambda i: float(self.of(model, i)))
        for ids, one in zip(self.windows, drifts, strict=True):
            found.setdefault(ids.shape[1], []).append(one)
        return largest([sum(drifts) / len(drifts) for drifts in found.values()])


def largest(values: Sequence[float]) -> float:
    """The largest, at least 0; NaN where one of them is, which Python's `max` may pass over."""
    return float(torch.tensor([0.0, *values], dtype=torch.float64).max())


def _log_probabilities(model: nn.Module, ids: Tensor) -> Tensor:
    places = slice(STRIDE - 1, None, STRIDE)
    out: Any = model(input_ids=ids, logits_to_keep=places, use_cache=False)
    logits: Tensor = out.logits
    return logits.float().log_softmax(-1)


Group = Sequence[Batch]
"""Passages of one guarded task, read together."""


class Guard:
    """Groups of each guarded task, with the losses of the model as it was when this was made."""

    @torch.no_grad()
    def __init__(
        self,
        model: nn.Module,
        tasks: Sequence[Sequence[Group]],
        seen: Seen = lambda: None,
        mine: Mine = lambda _: True,
    ) -> None:
        require(all(tasks), "every guarded task must have a group", "none")
        self.tasks: list[list[list[tuple[Batch, float]]]] = []
        for i, groups in enumerate(tasks):
            self.tasks.append([])
            for group in groups:
                self.tasks[-1].append([(batch, float(batch.loss(model))) for batch in group if mine(i)])
                seen()

    def of(self, model: nn.Module, task: int, index: int) -> Tensor:
        """The harm to one group of a task, its groups counted round."""
        groups = self.tasks[task]
        group = groups[index % len(groups)]
        return torch.stack([batch.loss(model) - before for batch, before in group]).mean().clamp(min=0.0)

    @torch.no_grad()
    def harms(self, model: nn.Module, only: Container[int] | None = None) -> list[float]:
        """The harm to every task by its first group, or to some of them: the others are not read and count as 0."""

        def read(i: int) -> float:
            return float(self.of(model, i, 0)) if only is None or i in only else 0.0

        return ranks_here().collect(len(self.tasks), read)
