"""All questions of one task at one size, as a model answered them, and what every head did at the answers' rows.

A question is answered exactly when each of its answer's tokens is the most likely one. A wrong answer is judged at the
row of its first wrong token, a right one at the rows whose token stands in the evidence (`telling`).

    copied   [q, r, heads]  the head's top key is the token that is written next: the right one, in the evidence, or
                            the one that the model writes instead. This is what makes a retrieval head (2404.15574)
    best     [q, r]         log-likelihood of the model's own next token
    output   [q, r, k]      the symptoms of the model's output (symptoms/)
    texts    [heads, k]     the symptoms of a whole text, of the first passage's context; NaN where it has none
    apart    [q, r]         distance of the last hidden state to that of the nearest question with another answer, as
                            a share of its norm; NaN where there is none to compare with
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from strop.diagnosing.asking import Asked, Contexts, Said, answer_rows
from strop.diagnosing.symptoms import ANSWER_SYMPTOMS, TEXT_SYMPTOMS
from strop.diagnosing.trace import COLUMNS, texts_read, traced
from strop.evaluation.paired import wilson_interval
from strop.records import Record
from strop.records.tensors import read_tensors, write_tensors


class HeadPlace(NamedTuple):
    """A head: its layer's number, the name of the attention module, its own number."""

    layer: int
    name: str
    head: int


@dataclass(frozen=True)
class Answered:
    """Questions of one task and size; `length` is of the longest prompt, in tokens."""

    task: str
    size: int
    length: int
    numbers: Tensor
    counted: Tensor
    correct: Tensor
    telling: Tensor
    copied: Tensor
    apart: Tensor
    nats: Tensor
    sure: Tensor
    best: Tensor
    output: Tensor
    texts: Tensor

    def __len__(self) -> int:
        return len(self.counted)

    @property
    def exact(self) -> Tensor:
        """Which questions were answered exactly, [q]."""
        return (self.correct | ~self.counted).all(1)

    @property
    def accuracy(self) -> float:
        """The share of exact answers."""
        return float(self.exact.float().mean())

    @property
    def wrong_rows(self) -> tuple[Tensor, Tensor]:
        """Indices of the wrong answers and of the row of the first wrong token of each."""
        wrong = (~self.exact).nonzero()[:, 0]
        return wrong, (self.counted & ~self.correct)[wrong].long().argmax(1)

    def number(self, name: str) -> Tensor:
        """Return one of the numbers of weighing.py or a symptom of rows, [q, r, heads]."""
        return self.numbers[..., COLUMNS.index(name)]

    def describe(self) -> Record:
        """Return what the answers are worth, without their causes."""
        right, total = int(self.exact.sum()), len(self)
        low, high = wilson_interval(right, total)
        return {
            "task": self.task, "size": self.size, "tokens": self.length, "prompts": total, "wrong": total - right,
            "exact": right / total, "exact_low": low, "exact_high": high,
        }  # fmt: skip

    def save(self, path: Path) -> None:
        """Write it as safetensors."""
        tensors = {one.name: getattr(self, one.name) for one in fields(self)[3:]}
        write_tensors(path, tensors, {"task": self.task, "size": str(self.size), "length": str(self.length)})

    @classmethod
    def load(cls, path: Path) -> Answered:
        """Read what `save` wrote."""
        tensors, about = read_tensors(path, "Delete it and run again")
        return cls(about["task"], int(about["size"]), int(about["length"]), **tensors)


@torch.no_grad()
def read_group(contexts: Contexts, asked: Sequence[Asked], task: str, size: int, partial: bool = False) -> Answered:
    """Answer every question of some passages and measure every head while that is done."""
    parts, hidden, targets, model = [], [], [], contexts.model
    for i, one in enumerate(asked):
        if i == 0:
            with texts_read(model, partial) as read:
                cache = contexts.read(one)
        else:
            cache = contexts.read(one)
        said = answer_rows(model, one, cache)
        with traced(model, one, said.logits.argmax(-1), partial) as trace:
            answer_rows(model, one, cache)
        parts.append(_note_answers(one, said, trace.numbers()))
        hidden.append(said.hidden.cpu())
        targets.append(one.targets.cpu())
    columns = {name: _join([part[name] for part in parts]) for name in parts[0]}
    apart = measure_apart(_join(hidden), _join(targets), columns["counted"])
    length = max(int(one.tokens.shape[1]) for one in asked)
    return Answered(task, size, length, apart=apart, texts=_join_texts(read, columns["numbers"]), **columns)


def measure_apart(hidden: Tensor, targets: Tensor, counted: Tensor) -> Tensor:
    """Return how far each state [q, r, d] is from the nearest of the same row with another target, by its norm."""
    found = torch.full(counted.shape, math.nan)
    for row in range(counted.shape[1]):
        states = hidden[:, row].double()
        other = (targets[:, row, None] != targets[:, row]) & counted[:, row, None] & counted[:, row]
        far = torch.cdist(states, states).masked_fill(~other, math.inf).amin(1)
        found[:, row] = torch.where(far.isinf(), math.nan, far / states.norm(dim=1)).float()
    return found


def _note_answers(asked: Asked, said: Said, numbers: Tensor) -> dict[str, Tensor]:
    """What is kept of one passage's answers."""
    scores, targets, counted = said.logits.log_softmax(-1), asked.targets, asked.counted
    best = scores.max(-1)
    correct = best.indices == targets
    mine = scores.gather(-1, targets[..., None])[..., 0]
    until = counted & ((counted & ~correct).cumsum(1).cumsum(1) <= 1)  # to the first wrong token
    held = torch.where(asked.evidence, asked.tokens, -1)
    telling = counted & (targets[..., None] == held[:, None]).any(-1)
    telling = torch.where(telling.any(1, keepdim=True), telling, counted)
    top = numbers[..., COLUMNS.index("top")].long().to(targets.device)
    at_top, in_evidence = (_at(table, top) for table in (asked.tokens, asked.evidence))
    copied = ((at_top == targets[..., None]) & in_evidence) | (at_top == best.indices[..., None])
    found = {
        "numbers": numbers, "counted": counted, "correct": correct, "telling": telling, "copied": copied,
        "best": best.values, "output": torch.stack([symptom.measure(said) for symptom in ANSWER_SYMPTOMS], -1),
        "nats": -(mine * counted).sum(1) / counted.sum(1), "sure": (best.values * until).sum(1) / until.sum(1),
    }  # fmt: skip
    return {name: value.cpu() for name, value in found.items()}


def _join_texts(read: Mapping[str, Sequence[Tensor]], numbers: Tensor) -> Tensor:
    """Symptoms of a text [heads of all layers, k]; NaN where nothing was read."""
    nothing = torch.full((numbers.shape[2],), math.nan)
    return torch.stack([torch.cat(list(read[one.name])) if read[one.name] else nothing for one in TEXT_SYMPTOMS], -1)


def _at(table: Tensor, places: Tensor) -> Tensor:
    """Values of [q, n] at places [q, r, heads]."""
    return table.gather(1, places.flatten(1)).view(places.shape)


def _join(parts: Sequence[Tensor]) -> Tensor:
    """Put the questions of several passages below each other, rows that are not there filled with nothing."""
    rows = max((part.shape[1] for part in parts if part.ndim > 1), default=0)
    return torch.cat([part if part.ndim < 2 else _pad(part, rows) for part in parts])


def _pad(part: Tensor, rows: int) -> Tensor:
    more = part.new_zeros(len(part), rows - part.shape[1], *part.shape[2:])
    return torch.cat([part, more], 1)
