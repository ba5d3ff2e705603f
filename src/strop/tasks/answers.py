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
from torch.nn.functional import cross_entropy

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

    `ids` [questions, n] holds question and answer, padded on the right; `targets` marks the answers' tokens, on the
    CPU: how many there are settles the shapes of all that follows.
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
        return Encoded(torch.tensor([context[:-1]], dtype=torch.long).to(self.device), ids.to(self.device), targets)


def _logits(model: nn.Module, encoded: Encoded) -> Tensor:
    """What the model gives before each of the answers' tokens [their number, tokens], one question after another."""
    places, copies = encoded.context.shape[1], len(encoded.ids)
    wanted = encoded.targets[:, 1:]
    columns = wanted.any(0).nonzero()[:, 0]  # the head multiplies by every word there is: only where an answer is read
    each = wanted[:, columns].nonzero(as_tuple=True)
    if copies == 1 or places == 0:  # one sequence: no cache, so that layers may be recomputed for gradients
        ids = torch.cat([encoded.context.expand(copies, -1), encoded.ids[:, :-1]], 1)
        found = _read(model(input_ids=ids, logits_to_keep=places + columns, use_cache=False))
        return found[each]
    read: Any = model(input_ids=encoded.context, use_cache=True, logits_to_keep=1)
    together = copies if torch.is_grad_enabled() else max(1, CACHED // places)
    asked = [
        _ask(model, read.past_key_values, ids, columns, last=ids.shape[0] == copies)
        for ids in encoded.ids.split(together)
    ]
    return torch.cat(asked)[each]


def _ask(model: nn.Module, cache: Any, ids: Tensor, columns: Tensor, last: bool) -> Tensor:
    """Logits of some questions [questions, columns, tokens] after a context; the `last` to ask spends the cache."""
    mine = cache if last else copy.deepcopy(cache)
    mine.batch_repeat_interleave(len(ids))
    return _read(model(input_ids=ids[:, :-1], past_key_values=mine, use_cache=True, logits_to_keep=columns))


def _read(out: Any) -> Tensor:
    logits: Tensor = out.logits.float()
    return logits


def _answers(encoded: Encoded) -> Tensor:
    """The answers' tokens, one question after another."""
    return encoded.ids[encoded.targets.nonzero(as_tuple=True)]


def measure_leads(model: nn.Module, encoded: Encoded) -> Tensor:
    """Return by how many nats each of the answers' tokens is likelier than the best other one."""
    logits, right = _logits(model, encoded), _answers(encoded)[:, None]
    rival = logits.scatter(-1, right, float("-inf")).amax(-1)
    return logits.gather(-1, right)[:, 0] - rival


def answer_loss(model: nn.Module, batch: Sequence[Encoded]) -> Tensor:
    """Mean negative log-likelihood of the answers' tokens, in nats."""
    losses = [cross_entropy(_logits(model, encoded), _answers(encoded), reduction="none") for encoded in batch]
    return torch.cat(losses).mean()


@torch.no_grad()
def answer_questions(model: nn.Module, encoded: Encoded) -> list[Answer]:
    """Answer every question of a passage."""
    logits, right = _logits(model, encoded), _answers(encoded)
    counts = encoded.targets.sum(1).tolist()
    likelihood = -cross_entropy(logits, right, reduction="none")
    each = zip(likelihood.split(counts), (logits.argmax(-1) == right).split(counts), counts, strict=True)
    return [Answer(bool(exact.all()), float(nats.sum()), count) for nats, exact, count in each]
