"""Train a model on questions: the loop that all arms share, an edge among them.

Each step draws one size and as many questions as the token budget holds. Only answers are learned. What is drawn
depends on the generator alone, so that models trained with equal generators see the same questions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Generator, nn

from strop.studies.clrs.batches import TextCoder, draw_questions
from strop.studies.clrs.configs import TokenBudget
from strop.studies.clrs.text.algorithm import Algorithm
from strop.studies.problems.streams import stream


def count_question_tokens(algorithm: Algorithm, size: int, coder: TextCoder) -> int:
    """Tokens of a question of this size: the longest of a few."""
    generator = stream("length", algorithm.name, size)
    return max(len(coder.encode(algorithm.sample(size, generator).text)) for _ in range(8))


def fit_answers(
    model: nn.Module,
    learned: Iterable[nn.Parameter],
    algorithm: Algorithm,
    coder: TextCoder,
    sizes: tuple[int, ...],
    budget: TokenBudget,
    lr: float,
    generator: Generator,
) -> None:
    """Train `learned` in place; raise ArithmeticError as soon as the loss is not finite."""
    parameters = list(learned)
    optimiser = torch.optim.AdamW(parameters, lr=lr, weight_decay=budget.weight_decay)
    counts = {size: max(1, budget.tokens // count_question_tokens(algorithm, size, coder)) for size in sizes}
    for step in range(budget.steps):
        size = sizes[int(torch.randint(len(sizes), (), generator=generator))]
        batch = draw_questions(algorithm, size, counts[size], coder, generator)
        loss = F.cross_entropy(model(batch.tokens, batch.asked), batch.target[batch.asked])
        if not math.isfinite(loss.item()):
            raise ArithmeticError(f"loss must stay finite, got {loss.item()} at step {step + 1}. Lower lr.")
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, budget.clip)
        optimiser.param_groups[0]["lr"] = budget.rate(lr, step)
        optimiser.step()
