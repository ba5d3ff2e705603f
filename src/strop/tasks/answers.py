"""How a language model reads passages: tokens, the likelihood of the answers, and whether it would write them.

The context is read once into the cache and the questions are answered beside each other from it, so that eight
questions cost hardly more than one. A question is answered exactly when every token of its answer is the most likely
one after those before it, which is when greedy decoding would write it; no decoding is needed to know.

For gradients the questions stand one after another behind the context (`packed`): one sequence, many answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strop.tasks.passages import Passage


@dataclass(frozen=True)
class Answered:
    """One answer: whether greedy decoding gives it, its log-likelihood in nats and its number of tokens."""

    exact: bool
    log_likelihood: float
    tokens: int


@dataclass(frozen=True)
class Packed:
    """Sequences padded on the right [B, n]; `targets` marks the tokens that belong to answers."""

    ids: Tensor
    targets: Tensor
    attention: Tensor


class Reader:
    """A tokeniser, with the first token that the model wants."""

    def __init__(self, tokeniser: Any, bos: bool = False) -> None:
        self.tokeniser = tokeniser
        made = tokeniser("a")["input_ids"]
        plain = self.tokens("a")
        starts_itself = len(made) > len(plain) and made[-len(plain) :] == plain
        self.before: list[int] = made[: len(made) - len(plain)] if starts_itself else []
        if bos and not self.before:
            self.before = [tokeniser.bos_token_id]

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a piece of text, without special ones."""
        return list(self.tokeniser(text, add_special_tokens=False, verbose=False)["input_ids"])

    def encode(self, passage: Passage) -> tuple[list[int], list[tuple[list[int], list[int]]]]:
        """Return the context's tokens, and (question's tokens, answer's tokens) for every question."""
        context = self.before + self.tokens(passage.context) if passage.context else list(self.before)
        return context, [(self.tokens(question), self.tokens(answer)) for question, answer in passage.questions]

    def packed(self, passages: Sequence[Passage]) -> Packed:
        """Return the passages as sequences of context, question, answer, question, answer …"""
        rows = [self._row(passage) for passage in passages]
        width = max(len(ids) for ids, _ in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        targets = torch.zeros(len(rows), width, dtype=torch.bool)
        attention = torch.zeros(len(rows), width, dtype=torch.long)
        for i, (tokens, marks) in enumerate(rows):
            ids[i, : len(tokens)] = torch.tensor(tokens)
            targets[i, : len(tokens)] = torch.tensor(marks)
            attention[i, : len(tokens)] = 1
        return Packed(ids, targets, attention)

    def _row(self, passage: Passage) -> tuple[list[int], list[bool]]:
        ids, asked = self.encode(passage)
        gap = self.tokens("\n")
        marks = [False] * len(ids)
        for question, answer in asked:
            ids = ids + question + answer + gap
            marks += [False] * len(question) + [True] * len(answer) + [False] * len(gap)
        return ids, marks


def answer_loss(model: nn.Module, packed: Packed) -> Tensor:
    """Mean negative log-likelihood of the answers' tokens, in nats; only their logits are computed."""
    wanted = packed.targets[:, 1:]
    columns = wanted.any(0).nonzero()[:, 0]
    mask = None if bool(packed.attention.all()) else packed.attention
    out: Any = model(input_ids=packed.ids, attention_mask=mask, logits_to_keep=columns, use_cache=False)
    scores = out.logits.float().log_softmax(-1).gather(-1, packed.ids[:, columns + 1, None])[..., 0]
    loss: Tensor = -scores[wanted[:, columns]].mean()
    return loss


@torch.no_grad()
def answers(model: nn.Module, reader: Reader, passage: Passage) -> list[Answered]:
    """Answer every question of a passage."""
    context, asked = reader.encode(passage)
    last, cache = context[-1:], _read(model, context[:-1], len(asked))  # the last token's logits are a question's
    asked = [(last + question, answer) for question, answer in asked]
    width = max(len(q) + len(a) for q, a in asked)
    ids = torch.zeros(len(asked), width, dtype=torch.long)
    for i, (question, answer) in enumerate(asked):
        ids[i, : len(question) + len(answer)] = torch.tensor(question + answer)
    logits = model(input_ids=ids, past_key_values=cache, use_cache=cache is not None).logits.float()
    return [_answered(logits[i], len(q), a) for i, (q, a) in enumerate(asked)]


def _read(model: nn.Module, context: list[int], copies: int) -> Any:
    if not context:
        return None
    out: Any = model(input_ids=torch.tensor([context]), use_cache=True, logits_to_keep=1)
    if copies > 1:
        out.past_key_values.batch_repeat_interleave(copies)
    return out.past_key_values


def _answered(logits: Tensor, start: int, answer: list[int]) -> Answered:
    rows = logits[start - 1 : start - 1 + len(answer)].log_softmax(-1)
    target = torch.tensor(answer)
    likelihood = rows.gather(-1, target[:, None]).sum()
    return Answered(bool((rows.argmax(-1) == target).all()), float(likelihood), len(answer))
