"""What a probe means for a model, in words that can be acted on: is bluntness a problem, and what to do next.

Heads that look far are those that are neither local nor sinks: only they can lose something to a longer context.

    no       none of them disperses
    hardly   fewer than a quarter do (PROBLEM below, a convention)
    yes      a quarter or more
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from strop.records import Record, real, whole

if TYPE_CHECKING:
    from torch import nn

PROBLEM = 0.25

CONVENTION = (
    "Heads that look far are those that rest neither on the first token nor on their neighbours. By convention it is a "
    "problem from a quarter of them on."
)

ON_SMOLLM2 = (
    "Which heads go blunt does not say which heads calibration changes. On SmolLM2 they are hardly the same: "
    "Spearman's ρ between −slope and |log β| of the shipped recall edge is −0.003 over 270 heads, and 3 of the 25 "
    "blunt heads are among the 25 most changed, where chance gives 2.3 (`python benchmarks/bluntness.py`)."
)
"""Measured; benchmarks/results/bluntness.json holds the record."""


def judge_bluntness(model: str, heads: Sequence[Record]) -> str:
    """Say plainly whether bluntness is a problem for the model, as far as the heads can tell."""
    n = whole(heads[0]["n"])
    far = [head for head in heads if head["class"] in ("sharp", "dispersing")]
    blunt = sum(head["class"] == "dispersing" for head in far)
    if not _measures_growth(heads):
        return f"Whether bluntness is a problem for {model} cannot be told from one length."
    if not far:
        return f"Bluntness is no problem for {model} up to {n:,} tokens: no head looks far, so none can lose by length."
    of_far = f"of the {len(far)} heads that look far"
    if not blunt:
        return f"Bluntness is no problem for {model} up to {n:,} tokens: none {of_far} goes blunt."
    if blunt < PROBLEM * len(far):
        return f"Bluntness is hardly a problem for {model} up to {n:,} tokens: {blunt} {of_far} go blunt."
    return f"Bluntness is a problem for {model} by {n:,} tokens: {blunt} {of_far} go blunt."


def advise(given: str | None, answers: bool) -> tuple[str, str]:
    """Return what to do next and the command for it, or the call in Python for a model that was not `given` by name.

    `answers` says whether the model writes text, so that it can be calibrated on answers.
    """
    name = None if given is None else shlex.quote(given)
    if answers:
        words = "Only answers can tell whether they suffer. Calibration changes what helps, blunt or not, and tests it:"
        return words, "strop.calibrate(model, tokenizer)" if name is None else f"strop calibrate {name}"
    words = "It writes no answers that it could be calibrated on. Probe it on text of the kind that it will read:"
    return words, 'strop.probe(model, tokenizer, text="FILE")' if name is None else f"strop probe {name} --text FILE"


def writes_answers(model: nn.Module) -> bool:
    """Whether a model is one that writes text, with or without its language head."""
    kinds = getattr(getattr(model, "config", None), "architectures", None) or [type(model).__name__]
    return any(word in kind for kind in kinds for word in ("CausalLM", "LMHead", "ConditionalGeneration"))


def _measures_growth(heads: Sequence[Record]) -> bool:
    """Whether several lengths were measured."""
    return not all(math.isnan(real(head["slope"])) for head in heads)
