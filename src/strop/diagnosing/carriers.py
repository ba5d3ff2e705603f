"""Which heads carry a task's answers: those that copy them, and whose silence costs the answer.

    retrieval   share of the telling rows at which the head's top key is the token that is written next (groups.py)
    cost        what the model's own answer loses, in nats, when the head's output is scaled by 0 at the question's
                rows; measured on the heads of the best retrieval scores, where the model answers best
    gain        what the right token gains, in nats, at wrong answers, when this head alone is sharpened by SHARPER

A head carries answers if its cost is at least SHARE of the largest one. Where no silence costs anything, the heads of
the best retrieval score are taken, and `confirmed` says that it is a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from strop.diagnosing.asking import Asked, Contexts, Said, answer_rows, exact
from strop.diagnosing.groups import Answered, HeadPlace
from strop.edges.output_scales import OutputScales
from strop.normalisers import Softmax
from strop.patching.identity import heads_of
from strop.patching.layer_changes import change_layers
from strop.patching.sharpen import sharpened

CANDIDATES = 8
"""Heads whose silence is tried."""

CHECKED = 2
"""Passages on which a head is silenced or sharpened: the last ones, whose contexts are still at hand."""

LEAST = 0.05
"""Retrieval score below which a head is no candidate."""

SHARE = 0.1
"""Of the largest cost, what makes a head a carrier."""

FELT = 0.01
"""Nats below which a cost is none."""

SHARPER = 2.0


@dataclass(frozen=True)
class Carrier:
    """A head that carries answers of a task: its place among all heads, and its numbers."""

    index: int
    place: HeadPlace
    retrieval: float
    cost: float
    gain: float | None = None
    confirmed: bool = True

    @property
    def vote(self) -> float:
        """How much the head counts in naming a cause."""
        return self.cost if self.confirmed else self.retrieval


def score_retrieval(groups: Sequence[Answered]) -> Tensor:
    """Return the retrieval score of every head, [heads], over all telling rows of a task."""
    hits = torch.cat([group.copied[group.telling] for group in groups])
    return hits.float().mean(0)


@torch.no_grad()
def find_carriers(
    contexts: Contexts, places: Sequence[HeadPlace], groups: Sequence[Answered], passages: Sequence[Sequence[Asked]]
) -> list[Carrier]:
    """Find the heads that carry a task's answers, the most costly first; `passages` are those of each group."""
    retrieval = score_retrieval(groups)
    ranked = [i for i in retrieval.argsort(descending=True, stable=True).tolist() if retrieval[i] >= LEAST]
    best = max(range(len(groups)), key=lambda i: (groups[i].accuracy, -groups[i].size))
    tried = [
        Carrier(i, places[i], float(retrieval[i]), cost)
        for i, cost in zip(
            ranked[:CANDIDATES],
            _measure_costs(contexts, [places[i] for i in ranked[:CANDIDATES]], passages[best][-CHECKED:]),
            strict=True,
        )
    ]
    tried.sort(key=lambda carrier: -carrier.cost)
    if not tried or tried[0].cost < FELT:
        top = max((carrier.retrieval for carrier in tried), default=0.0)
        return [replace(carrier, confirmed=False) for carrier in tried if carrier.retrieval >= 0.5 * top]
    return [carrier for carrier in tried if carrier.cost >= max(FELT, SHARE * tried[0].cost)]


@torch.no_grad()
def sharpen_carriers(
    contexts: Contexts, carriers: Sequence[Carrier], passages: Sequence[Asked]
) -> tuple[list[Carrier], int, int]:
    """Sharpen each carrier alone, then all: (carriers with their gain, wrong answers tried, those that all mend)."""
    model = contexts.model
    gains, wrong, mended = torch.zeros(len(carriers), dtype=torch.float64), 0, 0
    for asked in passages[:CHECKED]:
        cache = contexts.read(asked)
        plain = answer_rows(model, asked, cache)
        failed = ~exact(asked, plain)
        rows = _first_wrong(asked, plain)
        before = _log_p(plain, asked.targets)
        for i, carrier in enumerate(carriers):
            with _sharpen(model, [carrier.place]):
                after = _log_p(answer_rows(model, asked, cache), asked.targets)
            gains[i] += float((after - before).gather(1, rows)[failed].sum())
        with _sharpen(model, [carrier.place for carrier in carriers]):
            mended += int((failed & exact(asked, answer_rows(model, asked, cache))).sum())
        wrong += int(failed.sum())
    found = [
        replace(one, gain=float(gain) / wrong if wrong else None) for one, gain in zip(carriers, gains, strict=True)
    ]
    return found, wrong, mended


def _measure_costs(contexts: Contexts, places: Sequence[HeadPlace], passages: Sequence[Asked]) -> list[float]:
    """What the model's own answers lose without each head, in nats an answer, up to the first wrong token."""
    costs, asked_all = torch.zeros(len(places), dtype=torch.float64), 0
    model, counts = contexts.model, heads_of(contexts.model)
    for asked in passages:
        cache = contexts.read(asked)
        plain = answer_rows(model, asked, cache)
        written = plain.logits.argmax(-1)
        wrong = asked.counted & (written != asked.targets)
        until = asked.counted & (wrong.cumsum(1).cumsum(1) <= 1)
        before = _log_p(plain, written)
        for i, place in enumerate(places):
            with _silence(model, place, counts[place.name]):
                after = _log_p(answer_rows(model, asked, cache), written)
            costs[i] += float(((before - after) * until).sum())
        asked_all += len(asked.ids)
    return (costs / max(1, asked_all)).tolist()


def _silence(model: nn.Module, place: HeadPlace, heads: int) -> AbstractContextManager[None]:
    scales = torch.zeros(heads)
    scales[place.head] = -1.0
    module = model.get_submodule(place.name)
    part = OutputScales(scales).to(next(module.parameters()).device)
    return change_layers({place.name: part.change_layer(module, heads)})


def _sharpen(model: nn.Module, places: Sequence[HeadPlace]) -> AbstractContextManager[object]:
    stack = ExitStack()
    for place in places:
        stack.enter_context(sharpened(model, Softmax(SHARPER), layers=[place.layer], heads=[place.head]))
    return stack


def _log_p(said: Said, tokens: Tensor) -> Tensor:
    return said.logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0].double()


def _first_wrong(asked: Asked, said: Said) -> Tensor:
    return (asked.counted & (said.logits.argmax(-1) != asked.targets)).long().argmax(1, keepdim=True)
