"""Which sizes suit a model: those at which it begins to fail.

    descend on    a quarter of the first size that fails, to that size; at least 8 to 24
    stop by       the largest of them and, where the task and the context have it, four times that

Below, there is nothing to mend, and far above, nothing to learn from. A model that does not fail within its context
needs no edge.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from strop._progress import show_progress
from strop.calibration.settings import Recipe
from strop.errors import NothingToMendError
from strop.pretrained.load import count_positions
from strop.tasks.answers import Reader
from strop.tasks.catalogue import find_task
from strop.tasks.sizes import FailingSize, draw_fitting, draw_prompts, find_failure

LONGEST = 8192
"""Tokens within which to look for a size that fails, or the model's positions, if those are fewer."""

LARGER = 4
"""How many times the largest size that is learned one is also stopped by."""


def suit_sizes(model: nn.Module, reader: Reader, recipe: Recipe, progress: bool | None = None) -> Recipe:
    """Return the recipe with sizes at which the model begins to fail; raise where it does not."""
    task = find_task(recipe.task)
    phrasings = task.stopping or recipe.phrasings or task.open_phrasings
    longest = min(LONGEST, count_positions(model) or LONGEST)
    with show_progress("where does it fail?", None, progress) as bar:
        found = find_failure(
            model, reader, task.name, phrasings, "validation", recipe.seed, longest=longest,
            told=lambda size: bar.update(text=f"where does it fail? size {size}"),
        )  # fmt: skip
    chosen = choose_sizes(recipe, found)
    if recipe.judged:
        return chosen
    fits = [n for n in chosen.judged if draw_fitting(reader, task.name, n, phrasings, "validation", 0, 1, longest)]
    return replace(chosen, judged=tuple(fits) or chosen.judged[:1])


def choose_sizes(recipe: Recipe, found: FailingSize) -> Recipe:
    """Return the recipe with sizes below and at the one that fails."""
    if found.size is None:
        raise NothingToMendError(
            f"{recipe.task} must have a size at which the model fails, got {min(found.tried.values()):.0%} right or "
            f"more up to size {found.largest}, the largest that fits its context. No edge is needed; --sizes overrides."
        )
    low, high = (max(least, size) for least, size in zip(Recipe.sizes, (found.size // 4, found.size), strict=True))
    task = find_task(recipe.task)
    larger = draw_prompts(recipe.task, LARGER * high, task.stopping or task.open_phrasings[:1], "validation", 0, 1)
    judged = (high,) if larger is None else (high, LARGER * high)
    return replace(recipe, sizes=(low, high), judged=recipe.judged or judged)
