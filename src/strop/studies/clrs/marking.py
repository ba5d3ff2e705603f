"""A model on questions of one size: exact answers, right tokens, and how the rows of each digit attend.

exact     share of questions whose every answer token is the model's first choice: what greedy decoding gets right
tokens    share of answer tokens that are, each after the right ones before it
place     0 begins a value, 1 is the first digit after that …: right tokens, entropy of the softmax of the row's logits
          (nats, before any temperature), the β that the paper's polynomial gives that entropy, and the top weight,
          means over rows, heads and layers of a few questions
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from strop.normalisers import AdaptiveTemperature
from strop.records import Record
from strop.studies.clrs.batches import QuestionBatch, draw_questions
from strop.studies.clrs.models import Learner
from strop.studies.clrs.text.algorithm import Algorithm
from strop.studies.networks.decoder import Decoder

TOKENS_A_PASS = 2**14
LOOKED_AT = 8
"""Questions whose attention is looked at."""


@torch.no_grad()
def mark_size(
    learner: Learner, algorithm: Algorithm, size: int, count: int, generator: Generator, *, places: bool = True
) -> list[Record]:
    """A row for the size, with `rights` a digit for each question, then a row for each digit place."""
    batch = draw_questions(algorithm, size, count, learner.coder, generator, learner.spread)
    right, loss = _answer(learner, batch)
    exact = (right | ~batch.asked).all(1)
    whole: Record = {
        "algorithm": algorithm.name,
        "n": size,
        "length": batch.tokens.shape[1],
        "problems": count,
        "place": None,
        "exact": float(exact.double().mean()),
        "tokens": float(right[batch.asked].double().mean()),
        "loss": loss,
        "rights": "r" + "".join("1" if one else "0" for one in exact.tolist()),
    }
    about: Record = {"algorithm": algorithm.name, "n": size}
    return [whole, *(about | row for row in _mark_places(learner, batch, right))] if places else [whole]


def _answer(learner: Learner, batch: QuestionBatch) -> tuple[Tensor, float]:
    """Which answer tokens are right [count, T], and the mean loss of an answer token."""
    right, loss = torch.zeros_like(batch.asked), 0.0
    at_once = max(1, TOKENS_A_PASS // batch.tokens.shape[1])
    for start in range(0, len(batch.tokens), at_once):
        rows = slice(start, start + at_once)
        part = batch.part(rows)
        logits, target = learner.answer(part), part.target[part.asked]
        right[rows][part.asked] = logits.argmax(-1) == target
        loss += float(F.cross_entropy(logits.double(), target, reduction="sum"))
    return right, loss / int(batch.asked.sum())


def _mark_places(learner: Learner, batch: QuestionBatch, right: Tensor) -> list[Record]:
    few = batch.part(slice(0, LOOKED_AT))
    looks = _look(learner.model, few) if isinstance(learner.model, Decoder) and learner.choice is None else {}
    out: list[Record] = []
    for place in sorted(set(batch.places[batch.asked].tolist())):
        at, seen = batch.asked & (batch.places == place), few.asked & (few.places == place)
        row: Record = {"place": place, "answers": int(at.sum()), "tokens": float(right[at].double().mean())}
        out.append(row | {name: float(look[seen].mean()) for name, look in looks.items() if bool(seen.any())})
    return out


def _look(model: Decoder, batch: QuestionBatch) -> dict[str, Tensor]:
    """Entropy, β and top weight of every row [count, T], means over heads and layers."""
    layers, rule = model.attention_stats(batch.tokens, batch.positions), AdaptiveTemperature()
    entropy = [layer.rows.entropy.double() for layer in layers]
    beta = [rule.inverse_temperature(layer.rows).double() for layer in layers]
    top = [layer.top_weight.double() for layer in layers]
    named = {"entropy": entropy, "beta": beta, "top": top}
    return {name: torch.stack(found).mean((0, 2)) for name, found in named.items()}
