"""What takes part in the arena and how much work it is. Plain values: nothing here loads torch until one is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from strop._checks import require, require_distinct, require_number
from strop.studies.arena.configs import Budget, Shape, Training, Trial
from strop.studies.arena.entries import Entry, find_misfit

if TYPE_CHECKING:
    from strop.studies.problems import Task

BUDGETS = {"set": Budget(), "sequence": Budget(steps=1_000, batch=32)}
QUICK: dict[str, Any] = {
    "tasks": ("max_retrieval", "needle", "average"),
    "entries": ("softmax", "adaptive", "ssmax", "top_k"),
    "seeds": 1,
    "rates": (4e-3,),
    "steps": 500,
    "sizes": (16, 64, 256, 1024),
    "problems": 256,
}
"""What `--quick` sets: minutes instead of hours."""


@dataclass(frozen=True)
class Arena:
    """What takes part, and how much work it is.

    Args:
        tasks: names of tasks, keys of `strop.studies.problems.ALL_TASKS`.
        entries: entrants: a normaliser's name, name(setting=1), or trained>tested.
        seeds: models of each entrant.
        rates: learning rates to choose from, by the validation loss of seed 0.
        steps: training steps, in place of every kind of task's own.
        batch: problems a step, in place of every kind of task's own.
        sizes: test sizes, in place of every task's own.
        problems: problems a size, at most.
        items: problems · length a size, at most, but for 16 problems.
        shape: of the models.

    Examples:
        >>> from strop.studies.arena import Arena
        >>> arena = Arena(tasks=("average",), entries=("softmax", "adaptive", "softmax>top_k(k=2)"))
        >>> [(entry.trained, entry.tested) for entry in arena.entrants()]
        [('softmax', 'softmax'), ('softmax', 'adaptive'), ('softmax', 'top_k(k=2)')]
    """

    tasks: tuple[str, ...] = ("max_retrieval", "top_k_class", "needle", "recall", "average", "count")
    entries: tuple[str, ...] = (
        "softmax",
        "adaptive",
        "hard",
        "ssmax",
        "qassmax",
        "entmax15",
        "asentmax",
        "top_k",
        "sigmoid",
        "softpick",
        "stick_breaking",
        "tra",
        "linear",
    )
    seeds: int = 3
    rates: tuple[float, ...] = (1e-3, 4e-3)
    steps: int | None = None
    batch: int | None = None
    sizes: tuple[int, ...] | None = None
    problems: int = Trial.problems
    items: int = Trial.items
    shape: Shape = field(default_factory=Shape)

    @classmethod
    def quick(cls, **changes: Any) -> Arena:
        """A small board in minutes; `changes` are fields of your own."""
        return cls(**{**QUICK, **changes})

    def __post_init__(self) -> None:
        require(bool(self.tasks), "tasks must name one task or more", "none", "Leave it out for the default")
        require(bool(self.entries), "normalisers must name one or more", "none", "Leave it out for the default")
        for name in ("seeds", "problems", "items"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        require(bool(self.rates), "rates must hold one rate or more", "none", "Leave it out for the default")
        for rate in self.rates:
            require_number("rates", rate, above=0)
        for name in ("rates", "sizes"):
            require_distinct(name, getattr(self, name) or ())
        for task in self.tasks:
            self._check(task)

    def _check(self, name: str) -> None:
        """Refuse before any run what a task cannot be asked for."""
        from strop.studies.arena.runs import build_model
        from strop.studies.problems import stream

        task = _find_task(name)
        for size in self.test_sizes(task):
            task.sample(1, size, stream("check"))
        for entry in self.entrants():
            if find_misfit(entry, task, self.shape.positions) is None:
                training = Training(name, entry.trained, self.rates[0], 0, self.budget(task), self.shape)
                build_model(training, entry.tested)

    def entrants(self) -> list[Entry]:
        """The entrants in order; what is trained and tested alike is one, by its first name."""
        found: dict[tuple[str, str], Entry] = {}
        for entry in map(Entry.of, self.entries):
            found.setdefault((entry.trained, entry.tested), entry)
        return list(found.values())

    def test_sizes(self, task: Task) -> tuple[int, ...]:
        """Sizes at which a task is tested."""
        return self.sizes or task.test_sizes

    def budget(self, task: Task) -> Budget:
        """What a training of this task may use."""
        own = BUDGETS[task.kind]
        steps = self.steps or own.steps
        return replace(own, steps=steps, batch=self.batch or own.batch, warmup=min(own.warmup, steps))

    def pairs(self) -> Iterator[tuple[str, Entry]]:
        """Every task with every entrant that fits it."""
        for task in dict.fromkeys(self.tasks):
            for entry in self.entrants():
                if find_misfit(entry, _find_task(task), self.shape.positions) is None:
                    yield task, entry

    def misfits(self) -> dict[str, list[str]]:
        """Why entrants do not fit tasks, and in which tasks."""
        out: dict[str, list[str]] = {}
        for task in self.tasks:
            for entry in self.entrants():
                reason = find_misfit(entry, _find_task(task), self.shape.positions)
                if reason is not None:
                    out.setdefault(reason, []).append(task)
        return out

    def training(self, task: str, entry: Entry, rate: float, seed: int) -> Training:
        """One training run."""
        found = _find_task(task)
        return Training(task, entry.trained, rate, seed, self.budget(found), self.shape.of(found.kind))

    def trial(self, task: str, entry: Entry, rate: float, seed: int) -> Trial:
        """One trial of a trained model."""
        sizes = self.test_sizes(_find_task(task))
        return Trial(self.training(task, entry, rate, seed), entry.tested, sizes, self.problems, self.items)


def _find_task(name: str) -> Task:
    from strop.studies.problems import find_problem

    return find_problem(name)
