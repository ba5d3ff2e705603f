"""Train a model on questions: the loop that all arms share, an edge among them.

Each step draws some algorithms, a size of each, and as many questions as the token budget holds. Only answers are
learned, and every part of a step weighs the same. What is drawn depends on the generator alone, so that models trained
with equal generators see the same questions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Generator, nn

from strop.studies.clrs.batches import QuestionBatch, TextCoder, draw_questions
from strop.studies.clrs.configs import Lesson, TokenBudget
from strop.studies.clrs.models import Learner
from strop.studies.clrs.muon import FloatMuon
from strop.studies.clrs.text.algorithm import Algorithm
from strop.studies.clrs.text.catalogue import find_algorithm
from strop.studies.problems.streams import stream

_LAYER_MATRIX = re.compile(r"layers\..*\.weight")


@cache
def count_question_tokens(algorithm: Algorithm, size: int, coder: TextCoder) -> int:
    """Tokens of a question of this size: the longest of a few."""
    generator = stream("length", algorithm.name, size)
    return max(len(coder.encode(algorithm.sample(size, generator).text)) for _ in range(8))


def fit_answers(
    learner: Learner, lessons: Sequence[Lesson], budget: TokenBudget, lr: float, generator: Generator
) -> None:
    """Train what the learner learns, in place; raise ArithmeticError as soon as the loss is not finite."""
    learned = {name: value for name, value in learner.learned.items() if value.requires_grad}
    optimisers = make_optimisers(learned, budget)
    parts = min(budget.parts, len(lessons))
    for step in range(budget.steps):
        for value in learned.values():
            value.grad = None
        loss = 0.0
        for batch in draw_parts(lessons, learner.coder, budget, generator, learner.spread):
            part = F.cross_entropy(learner.answer(batch), batch.target[batch.asked])
            (part / parts).backward()
            loss += part.item() / parts
        if not math.isfinite(loss):
            raise ArithmeticError(f"loss must stay finite, got {loss} at step {step + 1}. Lower lr.")
        nn.utils.clip_grad_norm_(learned.values(), budget.clip)
        for optimiser in optimisers:
            optimiser.param_groups[0]["lr"] = budget.rate(lr, step)
            optimiser.step()


def make_optimisers(learned: Mapping[str, nn.Parameter], budget: TokenBudget) -> list[torch.optim.Optimizer]:
    """Muon for matrices of layers where the budget says so, AdamW for the rest; no weight decay.

    Muon's steps have the size of AdamW's, so that both take the same rate.
    """
    muon = budget.optimiser == "muon"
    matrices = {name for name, value in learned.items() if muon and _LAYER_MATRIX.fullmatch(name) and value.ndim == 2}
    rest = [value for name, value in learned.items() if name not in matrices]
    out: list[torch.optim.Optimizer] = []
    if matrices:
        chosen = [learned[name] for name in learned if name in matrices]
        half = budget.products == "bfloat16"
        out.append(
            torch.optim.Muon(chosen, weight_decay=0.0, adjust_lr_fn="match_rms_adamw") if half else FloatMuon(chosen)
        )
    if rest:
        out.append(torch.optim.AdamW(rest, betas=(0.9, 0.98), weight_decay=0.0))
    return out


def draw_parts(
    lessons: Sequence[Lesson], coder: TextCoder, budget: TokenBudget, generator: Generator, spread: int = 0
) -> Iterator[QuestionBatch]:
    """The questions of one step: different algorithms, a size of each, all parts of about as many tokens."""
    parts = min(budget.parts, len(lessons))
    for i in torch.randperm(len(lessons), generator=generator)[:parts].tolist():
        algorithm, sizes = find_algorithm(lessons[i].algorithm), lessons[i].sizes
        size = sizes[int(torch.randint(len(sizes), (), generator=generator))]
        count = max(1, budget.tokens // parts // count_question_tokens(algorithm, size, coder))
        yield draw_questions(algorithm, size, count, coder, generator, spread)
