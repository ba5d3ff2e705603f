"""Prompts as a diagnosis reads them: the context once, into the cache, and the questions beside each other from it.

    context   [1, c]     all that the questions share, but for its last token; of a single question all but its last one
    ids       [q, w]     what follows: question and answer, padded on the right
    rows      [q, r]     the places in `ids` before each of the answer's tokens: there the model must find the answer
    evidence  [q, n]     bool, which of the n = c + w tokens hold the answer

What is asked of a changed model is asked from the same cache, so that a change costs a few rows and not a context.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from strop.diagnosing.plan import check_evidence
from strop.tasks.answers import Encoded, Reader
from strop.tasks.passages import Passage, Span


@dataclass(frozen=True)
class Asked:
    """The tokens of a passage and its questions; `counted` [q, r] says which of the rows are there."""

    context: Tensor
    ids: Tensor
    rows: Tensor
    counted: Tensor
    evidence: Tensor

    @property
    def tokens(self) -> Tensor:
        """Every token of every question, [q, n]."""
        return torch.cat([self.context.expand(len(self.ids), -1), self.ids], 1)

    @property
    def targets(self) -> Tensor:
        """The tokens of the answers, [q, r]."""
        return self.ids.gather(1, self.rows + 1)

    @property
    def encoded(self) -> Encoded:
        """The same as calibration reads it."""
        targets = torch.zeros_like(self.ids).scatter_reduce(1, self.rows + 1, self.counted.long(), "amax")
        return Encoded(self.context, self.ids, targets.bool())


class Said(NamedTuple):
    """What the model makes of the answers' rows: logits [q, r, tokens] and last hidden states [q, r, d]."""

    logits: Tensor
    hidden: Tensor


def ask(reader: Reader, passage: Passage, line: str = "every question") -> Asked:
    """Return the tokens of a passage and where its evidence stands; `line` is what to call it in errors."""
    check_evidence(passage, line)
    encoded = reader.encode(passage)
    context, ids, targets = encoded.context, encoded.ids, encoded.targets.to(encoded.ids.device)
    evidence = _mark_evidence(reader, passage, context.shape[1], ids.shape[1])
    if len(ids) == 1:  # nothing is shared: all that comes before the answer may be read before
        before = int(targets[0].long().argmax()) - 1
        context, ids, targets = torch.cat([context, ids[:, :before]], 1), ids[:, before:], targets[:, before:]
    rows, counted = _find_rows(targets)
    return Asked(context, ids, rows, counted, evidence.to(ids.device))


def read_context(model: nn.Module, asked: Asked) -> Any:
    """Read the context into a cache; None where there is none."""
    if asked.context.shape[1] == 0:
        return None
    out: Any = model(input_ids=asked.context, use_cache=True, logits_to_keep=1)
    return out.past_key_values


class Contexts:
    """The contexts of an unchanged model: the last ones that were read are kept, to be asked again without reading."""

    def __init__(self, model: nn.Module, kept: int = 0):
        self.model = model
        self._kept: deque[tuple[Asked, Any]] = deque(maxlen=kept)

    def read(self, asked: Asked) -> Any:
        """Return the cache of a context."""
        if self.holds(asked):
            return next(cache for one, cache in self._kept if one is asked)
        cache = read_context(self.model, asked)
        self._kept.append((asked, cache))
        return cache

    def holds(self, asked: Asked) -> bool:
        """Whether a context need not be read again."""
        return any(one is asked for one, _ in self._kept)


def answer_rows(model: nn.Module, asked: Asked, cache: Any) -> Said:
    """Answer every question from the cache of the context, which stays as it is."""
    given = {}
    if cache is not None:
        given["past_key_values"] = copy.deepcopy(cache)
        given["past_key_values"].batch_repeat_interleave(len(asked.ids))
    out: Any = model(input_ids=asked.ids[:, :-1], use_cache=cache is not None, output_hidden_states=True, **given)
    pick = (torch.arange(len(asked.rows), device=asked.rows.device)[:, None], asked.rows)
    return Said(out.logits[pick].float(), out.hidden_states[-1][pick].float())


def exact(asked: Asked, said: Said) -> Tensor:
    """Return which questions were answered exactly, [q]."""
    return ((said.logits.argmax(-1) == asked.targets) | ~asked.counted).all(1)


def locate_tokens(reader: Reader, text: str, spans: Sequence[Span]) -> list[int]:
    """Return which tokens of a text have a part in some of its characters."""
    if not getattr(reader.tokeniser, "is_fast", False):  # one that does not say: what comes before is counted
        ends = [(len(reader.tokens(text[:start].rstrip())), len(reader.tokens(text[:stop]))) for start, stop in spans]
        return sorted({i for first, last in ends for i in range(first, last)})
    told = reader.tokeniser(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    tokens = enumerate(told["offset_mapping"])
    return [i for i, (first, last) in tokens if any(first < stop and start < last for start, stop in spans)]


def _mark_evidence(reader: Reader, passage: Passage, before: int, width: int) -> Tensor:
    """Mark the evidence of every question among all its tokens; context and question are cut into tokens apart."""
    marked = torch.zeros(len(passage.questions), before + width, dtype=torch.bool)
    cut, first = len(passage.context), len(reader.before)
    shared = first + len(reader.tokens(passage.context))
    for i, ((question, _), spans) in enumerate(zip(passage.questions, passage.evidence, strict=True)):
        inside = [(start, min(stop, cut)) for start, stop in spans if start < cut]
        later = [(max(start, cut) - cut, stop - cut) for start, stop in spans if stop > cut]
        found = [first + j for j in locate_tokens(reader, passage.context, inside)] if inside else []
        found += [shared + j for j in locate_tokens(reader, question, later)] if later else []
        marked[i, found] = True
    return marked


def _find_rows(targets: Tensor) -> tuple[Tensor, Tensor]:
    """The rows before the answers' tokens, [q, r], the last one repeated where an answer has fewer; which are real."""
    lengths = targets.sum(1)
    places = torch.arange(int(lengths.max()), device=targets.device)
    first = targets.long().argmax(1) - 1
    return first[:, None] + torch.minimum(places, lengths[:, None] - 1), places < lengths[:, None]
