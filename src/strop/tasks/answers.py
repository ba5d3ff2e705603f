"""How a language model reads passages: tokens, the likelihood of the answers, and whether it would write them.

The context is read once into the cache and the questions are answered beside each other from it, none seeing another,
so that eight questions cost hardly more than one; gradients flow through the cache as well. Without gradients long
contexts are asked a few questions at a time, so that copies of the cache stay small. A question is answered
exactly when every token of its answer is the most likely one after those before it, which is when greedy decoding would
write it; no decoding is needed to know.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.tasks.passages import Passage

CACHED = 16_384
"""Tokens that the copies of a cache hold together, where no gradient is wanted."""


@dataclass(frozen=True)
class Answer:
    """One answer: whether greedy decoding gives it, its log-likelihood in nats and its number of tokens."""

    exact: bool
    log_likelihood: float
    tokens: int


@dataclass(frozen=True)
class Encoded:
    """Tokens of a passage: the context [1, c] but for its last token, which begins every question.

    `ids` [questions, n] holds question and answer, padded on the right; `targets` marks the answers' tokens.
    """

    context: Tensor
    ids: Tensor
    targets: Tensor


class Reader:
    """A tokeniser, with the special tokens that it puts before a text.

    Args:
        tokeniser: Of transformers, or anything that is called like one.
        device: Where tokens are put. None: the CPU.

    Examples:
        >>> from strop.tasks import Passage
        >>> Reader(tokenizer).encode(Passage("Oak is 7. ", (("Oak is", " 7"),))).targets.sum()
        tensor(2)
    """

    def __init__(self, tokeniser: Any, device: torch.device | None = None) -> None:
        self.tokeniser, self.device = tokeniser, device
        made, plain = tokeniser("a")["input_ids"], self.tokens("a")
        starts_itself = len(made) > len(plain) and made[-len(plain) :] == plain
        self.before: list[int] = made[: len(made) - len(plain)] if starts_itself else []

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a piece of text, without special ones."""
        return list(self.tokeniser(text, add_special_tokens=False, verbose=False)["input_ids"])

    def encode(self, passage: Passage) -> Encoded:
        """Return the tokens of a passage and its questions; context, question and answer are cut into tokens apart."""
        context = self.before + self.tokens(passage.context)
        asked = [(context[-1:] + self.tokens(q), self.tokens(a)) for q, a in passage.questions]
        require(
            all(q and a for q, a in asked), "every question must have words to read and to answer", passage.questions
        )
        width = max(len(q) + len(a) for q, a in asked)
        ids, targets = (
            torch.zeros(len(asked), width, dtype=torch.long),
            torch.zeros(len(asked), width, dtype=torch.bool),
        )
        for i, (question, answer) in enumerate(asked):
            ids[i, : len(question) + len(answer)] = torch.tensor(question + answer)
            targets[i, len(question) : len(question) + len(answer)] = True
        made = torch.tensor([context[:-1]], dtype=torch.long), ids, targets
        return Encoded(*(one.to(self.device) for one in made))


def _logits(model: nn.Module, encoded: Encoded) -> Tensor:
    """What the model gives every token but the first, [questions, n−1, tokens]."""
    places, copies = encoded.context.shape[1], len(encoded.ids)
    if copies == 1 or places == 0:  # one sequence: no cache, so that layers may be recomputed for gradients
        ids = torch.cat([encoded.context.expand(copies, -1), encoded.ids], 1)
        keep = slice(places, ids.shape[1] - 1)
        out: Any = model(input_ids=ids, logits_to_keep=keep, use_cache=False)
        return _float_logits(out)
    read: Any = model(input_ids=encoded.context, use_cache=True, logits_to_keep=1)
    together = copies if torch.is_grad_enabled() else max(1, CACHED // places)
    asked = [_ask(model, read.past_key_values, ids, last=ids.shape[0] == copies) for ids in encoded.ids.split(together)]
    return torch.cat(asked)


def _ask(model: nn.Module, cache: Any, ids: Tensor, last: bool) -> Tensor:
    """Logits of some questions [questions, n−1, tokens] after a context; the cache is spent if this is the `last`."""
    mine = cache if last else copy.deepcopy(cache)
    mine.batch_repeat_interleave(len(ids))
    return _float_logits(model(input_ids=ids[:, :-1], past_key_values=mine, use_cache=True))


def _float_logits(out: Any) -> Tensor:
    logits: Tensor = out.logits.float()
    return logits


def score(model: nn.Module, encoded: Encoded) -> tuple[Tensor, Tensor]:
    """Return (log-probability of every token but the first [questions, n−1], whether it is the most likely one)."""
    logits, following = _logits(model, encoded), encoded.ids[:, 1:]
    return logits.log_softmax(-1).gather(-1, following[..., None])[..., 0], logits.argmax(-1) == following


def measure_leads(model: nn.Module, encoded: Encoded) -> Tensor:
    """Return by how many nats each of the answers' tokens is likelier than the best other one."""
    wanted = encoded.targets[:, 1:]
    logits, right = _logits(model, encoded)[wanted], encoded.ids[:, 1:][wanted][:, None]
    rival = logits.scatter(-1, right, float("-inf")).amax(-1)
    return logits.gather(-1, right)[:, 0] - rival


def answer_loss(model: nn.Module, batch: Sequence[Encoded]) -> Tensor:
    """Mean negative log-likelihood of the answers' tokens, in nats."""
    parts = [score(model, encoded)[0][encoded.targets[:, 1:]] for encoded in batch]
    return -torch.cat(parts).mean()


@torch.no_grad()
def answer_questions(model: nn.Module, encoded: Encoded) -> list[Answer]:
    """Answer every question of a passage."""
    likelihood, right = score(model, encoded)
    wanted = encoded.targets[:, 1:]
    return [
        Answer(bool(right[i][wanted[i]].all()), float(likelihood[i][wanted[i]].sum()), int(wanted[i].sum()))
        for i in range(len(wanted))
    ]
