"""A generation may end once it has written all that is looked for: what follows cannot change its score.

RULER counts which of a document's answers occur in the text, so a score never falls as the text goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


class EarlyEnd:
    """A logits processor that makes a row end as soon as all its answers stand in its text.

    `wanted` is the answers by prompt, as tokens. A row whose prompt is not known goes on to its end.
    """

    def __init__(self, wanted: Mapping[tuple[int, ...], Sequence[str]], prompts: Tensor, keep: Tensor, tokenizer: Any):
        rows = (tuple(row[seen.bool()].tolist()) for row, seen in zip(prompts, keep, strict=True))
        self._answers = [[answer.lower() for answer in wanted.get(row, ())] for row in rows]
        self._start, self._tokenizer = prompts.shape[1], tokenizer

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        """Return the scores; in rows that are done, those of nothing but the end."""
        done = [i for i, answers in enumerate(self._answers) if answers and self._holds(ids[i], answers)]
        if done:
            ending = torch.full_like(scores[0], -torch.inf)
            ending[self._tokenizer.eos_token_id] = 0.0
            scores = scores.clone()
            scores[done] = ending
        return scores

    def _holds(self, ids: Tensor, answers: Sequence[str]) -> bool:
        text = self._tokenizer.decode(ids[self._start :], skip_special_tokens=True).lower()
        return all(answer in text for answer in answers)
