"""Retrieval heads by the query-focused retrieval score (QRHead, arXiv 2506.09944), on look-up of the train split.

    score of a head = Σ of its weights from a question's tokens on those of the sentence that it asks for,
                      the mean over the question's tokens and over all questions

The authors' code also subtracts what a head looks at where the question is "N/A". Here that is left out, as in their
definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from strop._types import Weights
from strop.diagnosing.asking import Contexts, answer_rows, ask
from strop.kernels import Request
from strop.kernels.dense import form_weights
from strop.kernels.shapes import repeat_heads
from strop.patching.block import Change, apply
from strop.patching.sites import find_sites
from strop.sharpness import upcast
from strop.tasks.answers import Reader
from strop.tasks.builtin.lookup import DRAWN, PHRASINGS
from strop.tasks.catalogue import find_task, generator_of
from strop.tasks.passages import Passage, sample

PASSAGES, QUESTIONS = 16, 8
"""Of look-up, what heads are scored on."""


def find_heads(model: nn.Module, reader: Reader, size: int, seed: int, count: int) -> list[tuple[str, int, float]]:
    """Return the heads of the largest scores on passages of `size` pairs: attention module, number, score."""
    scores = score_heads(model, reader, draw_documents(size, seed))
    every = [(name, head, float(score)) for name, found in scores.items() for head, score in enumerate(found)]
    return sorted(every, key=lambda one: -one[2])[:count]


@torch.no_grad()
def score_heads(model: nn.Module, reader: Reader, passages: Sequence[Passage]) -> dict[str, Tensor]:
    """Return the query-focused retrieval score of the heads of each attention module, from passages with evidence."""
    scores: dict[str, list[Tensor]] = {}
    for passage in passages:
        asked = ask(reader, passage)
        cache = Contexts(model).read(asked)
        places = torch.arange(asked.ids.shape[1] - 1, device=asked.ids.device)
        question = (places > 0) & (places <= asked.rows[:, :1])  # the first place is the context's last token
        each = (question / question.sum(1, keepdim=True))[:, None, :, None]

        def note(name: str, request: Request, each: Tensor = each, evidence: Tensor = asked.evidence) -> None:
            held = evidence[:, None, None, :-1][..., -request.n_k :]
            scores.setdefault(name, []).append((measure_weights(request) * each * held).sum((2, 3)))

        with noted(model, note):
            answer_rows(model, asked, cache)
    return {name: torch.cat(found).mean(0) for name, found in scores.items()}


def draw_documents(size: int, seed: int) -> list[Passage]:
    """Draw passages of look-up of the train split; the evidence of a question is the whole sentence of its pair."""
    task = find_task("lookup")
    phrasings = [name for name in task.open_phrasings if name != DRAWN]
    draw = generator_of("train", seed)
    return [mark(passage) for passage in sample(task, PASSAGES, size, phrasings, draw, QUESTIONS)]


def mark(passage: Passage) -> Passage:
    """Return a passage of look-up in a written wording with the sentences that its questions ask for."""
    words, spans = PHRASINGS[passage.phrasing], []
    before, _, after = words.question.partition("{k}")
    for question, answer in passage.questions:
        key = question.removeprefix(before).removesuffix(after)
        sentence = words.pair.format(k=key, v=answer.strip()).strip()
        start = passage.context.index(sentence)
        spans.append(((start, start + len(sentence)),))
    return replace(passage, evidence=tuple(spans))


@contextmanager
def noted(model: nn.Module, note: Callable[[str, Request], None]) -> Iterator[None]:
    """Tell `note` of every call of attention inside the block."""
    found = find_sites(model)
    with apply(model, found, Change({}, note, [*found.all, *found.unreached])):
        yield


def measure_weights(request: Request) -> Weights:
    """Return the weights of a call, [b, heads, n_q, n]."""
    key = upcast(repeat_heads(request.key, request.query))
    return form_weights(request._replace(query=upcast(request.query), key=key))[0]
