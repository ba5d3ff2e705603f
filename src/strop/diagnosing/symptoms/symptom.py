"""What a symptom is: a name, the paper that it is from, a sentence, and one of four ways to measure it.

RowSymptom      a number for each head and row of an answer, measured while the model answers
TextSymptom     a number for each head, measured while one whole prompt is read
AnswerSymptom   a number for each row of an answer, from the model's output
ModelSymptom    a curve of the model, from a text of its own
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn

from strop.diagnosing.asking import Asked, Said
from strop.diagnosing.weighing import Weighed
from strop.kernels import Request


class Symptom(ABC):
    """One way in which long inputs fail.

    Attributes:
        name: What its numbers are called in records.
        title: What they are called in tables.
        paper: Where it is from.
        sentence: What the number says.
        share: Whether it is a share, told in per cent.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    sentence: ClassVar[str]
    share: ClassVar[bool] = False


@dataclass(frozen=True)
class Rows:
    """The rows of some answers in one layer: logits [q, heads, r, n] with hidden keys at −inf, and what they weigh.

    `gone` tokens have been dropped from a sliding window's cache, so that key j is token j + gone.
    """

    module: nn.Module
    request: Request
    asked: Asked
    logits: Tensor
    weighed: Weighed
    gone: int = 0

    @cached_property
    def weights(self) -> Tensor:
        """What every key gets [q, heads, r, n], a model's own sink key apart."""
        total = self.logits.logsumexp(-1, keepdim=True)
        if self.request.sink is not None:
            total = torch.logaddexp(total, self.request.sink[:, None, None].to(total))
        return (self.logits - total).exp()

    @property
    def tokens(self) -> Tensor:
        """The tokens of the keys, [q, n]."""
        return self.asked.tokens[:, self.gone : self.gone + self.logits.shape[-1]]


class RowSymptom(Symptom):
    """A number for each head and row of an answer."""

    @abstractmethod
    def measure(self, rows: Rows) -> Tensor:
        """Return [q, heads, r]."""


class TextSymptom(Symptom):
    """A number for each head from the attention of one whole text."""

    @abstractmethod
    def measure(self, request: Request) -> Tensor:
        """Return [heads]."""


class AnswerSymptom(Symptom):
    """A number for each row of an answer from what the model says there."""

    @abstractmethod
    def measure(self, said: Said) -> Tensor:
        """Return [q, r]."""

    def join(self, rows: Tensor) -> float:
        """Return the number of many rows, their mean unless a symptom says otherwise."""
        return float(rows.double().mean())


class ModelSymptom(Symptom):
    """A curve of the model."""

    @abstractmethod
    def measure(self, model: nn.Module, longest: int) -> dict[int, float]:
        """Return length in tokens → number."""
