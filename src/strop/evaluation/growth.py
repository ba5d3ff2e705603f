"""What a report asks when nobody names sizes: from the size that an edge was calibrated on to twenty times that.

    sizes      1, 2, 4, 8 and 20 times the largest calibrated size; without one, the size at which the model begins to
               fail, found by doubling on validation prompts; as far as the task and the context go
    passages   of larger sizes fewer, with more questions, so that every size reads about as many tokens; phrasings ask
               different things, so that all passages of a size may be counted together

The context is that of the model, or LONGEST tokens. Where held-out phrasings alone have words enough for the largest
size, those are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from strop._progress import show_progress
from strop.evaluation.suite import FEWEST, Suite
from strop.tasks.sizes import draw_fitting, find_failure

if TYPE_CHECKING:
    from torch import nn

    from strop.edges.edge import Edge
    from strop.tasks.answers import Reader
    from strop.tasks.passages import Passage
    from strop.tasks.prompts import Prompts

TIMES = (1, 2, 4, 8)
FURTHEST = (20, 16, 12)
"""Of these, the first that fits is the last size."""

LEAST = 2
"""Passages of a phrasing and size, or more where there are few phrasings."""

MORE = 3
"""How many times as many questions a passage may have."""


@dataclass(frozen=True)
class GrowingSuite(Suite):
    """A suite whose first size sets how much is read of every size.

    Examples:
        >>> suite = GrowingSuite(sizes=(16, 128), phrasings=("code", "room"), prompts=64)
        >>> [(p.phrasing, p.size, len(p.questions)) for p in suite.passages()][15:]
        [('room', 16, 8), ('code', 128, 22), ('code', 128, 22), ('code', 128, 22), ('room', 128, 22), ...]
    """

    def passages(self, prompts: Prompts | None = None) -> list[Passage]:
        """Return passages of every size, the phrasings after each other."""
        from strop.tasks.catalogue import draw_passages

        chosen = self.choose_phrasings()
        least = max(LEAST, -(-FEWEST // len(chosen)))
        one = len(
            draw_passages(self.task, "test", self.seed, self.sizes[:1], chosen[:1], 1, self.questions)[0].questions
        )
        first = -(-self.prompts // one)
        made: list[Passage] = []
        for size in self.sizes:
            count = max(least, round(first * self.sizes[0] / size))
            questions = min(MORE * self.questions, -(-self.prompts // count))
            made += draw_passages(self.task, "test", self.seed, (size,), chosen, count, questions)
        return made


def name_task(edge: Edge) -> str:
    """Return the built-in task that an edge was calibrated on, or recall."""
    from strop.tasks.catalogue import TASKS

    task = (edge.made.get("recipe") or {}).get("task")
    return str(task) if task in TASKS else Suite.task


def grow(suite: Suite, edge: Edge, model: nn.Module, reader: Reader, progress: bool | None = None) -> GrowingSuite:
    """Return the suite at sizes that suit the edge and the model."""
    from strop.calibration.sizes import LONGEST
    from strop.pretrained.load import count_positions
    from strop.tasks.catalogue import find_task

    longest = min(LONGEST, count_positions(model) or LONGEST)
    base = _calibrated_size(edge, suite.task) or _failing_size(model, reader, suite, longest, progress)
    held = () if suite.phrasings else find_task(suite.task).held_out
    choices = [suite, *([replace(suite, phrasings=held)] if held else [])]
    grown = [GrowingSuite(**vars(one) | {"sizes": choose_growth(one, reader, base, longest)}) for one in choices]
    return max(grown, key=lambda one: one.sizes[-1])  # of two that go as far, the first


def choose_growth(suite: Suite, reader: Reader, base: int, longest: int) -> tuple[int, ...]:
    """Return the multiples of a size whose passages exist and fit into `longest` tokens."""

    def fits(size: int) -> bool:
        drawn = draw_fitting(reader, suite.task, size, suite.choose_phrasings(), "test", suite.seed, 1, longest)
        return drawn is not None

    near = [times * base for times in TIMES if fits(times * base)]
    far = [next((times * base for times in FURTHEST if fits(times * base)), 0)] if len(near) == len(TIMES) else []
    return tuple(size for size in (*near, *far) if size) or (base,)


def _calibrated_size(edge: Edge, task: str) -> int | None:
    """The largest size that an edge was calibrated on, if that was this kind of task: look-up is one, of any keys."""
    recipe: Mapping[str, Any] = edge.made.get("recipe") or {}
    same = str(recipe.get("task")).partition("-")[0] == task.partition("-")[0]
    return int(recipe["sizes"][1]) if same and recipe.get("sizes") else None


def _failing_size(model: nn.Module, reader: Reader, suite: Suite, longest: int, progress: bool | None) -> int:
    """The first size at which the model fails, or the largest that fits."""
    from strop.patching.freeze import freeze
    from strop.tasks.catalogue import find_task

    task = find_task(suite.task)
    with show_progress("where does it fail?", None, progress) as bar, freeze(model):
        found = find_failure(
            model, reader, task.name, task.stopping or task.open_phrasings, "validation", suite.seed, longest=longest,
            told=lambda size: bar.update(text=f"where does it fail? size {size}"),
        )  # fmt: skip
    return found.size or found.largest
