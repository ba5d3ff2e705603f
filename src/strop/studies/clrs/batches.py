"""Questions as tensors: tokens, and what a model should say after each token of the prompt's end and of the answer.

    tokens    p₀ p₁ … p_k a₀ a₁ … a_m  end end …     short rows are filled up; a causal model never looks there
    target     –  –  … a₀  a₁ …  a_m   –   –  …      – is IGNORE: nothing is asked

Where every answer token is the model's first choice given those before it, greedy decoding writes exactly the answer,
and only then: so exact match needs one forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Generator, Tensor

from strop.studies.clrs.text.algorithm import Algorithm, Question
from strop.studies.networks.positions import draw_positions
from strop.studies.problems.task import IGNORE


class TextCoder(Protocol):
    """What turns text into tokens: a `Vocabulary`, or the tokeniser of a pretrained model."""

    def __hash__(self) -> int:
        """Coders are told apart."""

    @property
    def end(self) -> int:
        """The token with which short rows are filled up."""

    def encode(self, text: str) -> list[int]:
        """Text to tokens."""

    def digit_places(self, tokens: Sequence[int]) -> list[int]:
        """Where in its number each token stands."""


@dataclass(frozen=True)
class QuestionBatch:
    """Questions of one size: tokens, targets, digit places, and positions if they are drawn, each [count, T]."""

    tokens: Tensor
    target: Tensor
    places: Tensor
    positions: Tensor | None = None

    @property
    def asked(self) -> Tensor:
        """Where something is asked."""
        return self.target != IGNORE

    def part(self, rows: slice) -> QuestionBatch:
        """Some of the questions."""
        positions = None if self.positions is None else self.positions[rows]
        return QuestionBatch(self.tokens[rows], self.target[rows], self.places[rows], positions)


def encode_questions(questions: Sequence[Question], coder: TextCoder) -> QuestionBatch:
    """Put questions side by side."""
    pairs = [(coder.encode(question.prompt), coder.encode(question.answer)) for question in questions]
    longest = max(len(prompt) + len(answer) for prompt, answer in pairs)
    tokens = torch.full((len(pairs), longest), coder.end)
    target, places = torch.full_like(tokens, IGNORE), torch.zeros_like(tokens)
    for row, (prompt, answer) in enumerate(pairs):
        whole, start = prompt + answer, len(prompt) - 1
        tokens[row, : len(whole)] = torch.tensor(whole)
        target[row, start : start + len(answer)] = torch.tensor(answer)
        places[row, start : start + len(answer)] = torch.tensor(coder.digit_places(answer))
    return QuestionBatch(tokens, target, places)


def draw_questions(
    algorithm: Algorithm, size: int, count: int, coder: TextCoder, generator: Generator, spread: int = 0
) -> QuestionBatch:
    """Draw questions of one size, then their positions if there is a `spread` to draw them from."""
    batch = encode_questions([algorithm.sample(size, generator) for _ in range(count)], coder)
    length = batch.tokens.shape[1]
    return replace(batch, positions=draw_positions(count, length, spread, generator)) if spread else batch
