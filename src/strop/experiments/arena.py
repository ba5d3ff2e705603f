"""Every normaliser, one harness: train small, test far larger.

    arena = Arena(tasks=("max_retrieval", "recall"), entries=("softmax", "adaptive", "entmax15"))
    standing = run(arena, root="runs", engine=Local())

Fair by construction: entrants of a task have the same problems, the same initial weights, the same shape and the same
budget. The learning rate is chosen for each by the validation loss of seed 0 at training sizes; test sizes choose
nothing. Entrants that differ only in what they are tested with share their trained models.

    sweep      every rate, seed 0                → the rate of each entrant
    training   that rate, the other seeds
    trials     every seed at every size

Finished runs are never run again, so the same command continues an arena that was killed, and arenas may share a
folder. A failed run is reported with its reason and counts nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strop._checks import require, require_distinct, require_number
from strop.engine import Engine, Failure
from strop.experiments.arena_entries import Entry, unfit
from strop.experiments.arena_runs import BUSY, Job, Shape, Training, Trial, carry_out, model_of, run_of
from strop.records import Record, RecordsError
from strop.tasks.problems import Task, task_by_name
from strop.tasks.streams import stream
from strop.train.loop import Budget

TASKS = ("max_retrieval", "top_k_class", "needle", "recall", "average", "count")
ENTRIES = (
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
BUDGETS = {"set": Budget(steps=2_000, batch=64), "sequence": Budget(steps=1_000, batch=32)}

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

Watch = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """How a phase stands: shown while it runs."""

    phase: str
    total: int
    done: int = 0
    failed: int = 0
    running: int = 0


@dataclass(frozen=True)
class Arena:
    """What takes part and how much work it is; `steps`, `batch` and `sizes` override every task's own."""

    tasks: tuple[str, ...] = TASKS
    entries: tuple[str, ...] = ENTRIES
    seeds: int = 3
    rates: tuple[float, ...] = (1e-3, 4e-3)
    steps: int | None = None
    batch: int | None = None
    sizes: tuple[int, ...] | None = None
    problems: int = 512
    items: int = 2**20
    shape: Shape = field(default_factory=Shape)

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
        task = task_by_name(name)
        for size in self.test_sizes(task):
            task.sample(1, size, stream("check"))
        for entry in self.entrants():
            if unfit(entry, task, self.shape.positions) is None:
                model_of(Training(name, entry.trained, self.rates[0], 0, self.budget(task), self.shape), entry.tested)

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
                if unfit(entry, task_by_name(task), self.shape.positions) is None:
                    yield task, entry

    def training(self, task: str, entry: Entry, rate: float, seed: int) -> Training:
        """One training run."""
        found = task_by_name(task)
        return Training(task, entry.trained, rate, seed, self.budget(found), self.shape.of(found.kind))

    def trial(self, task: str, entry: Entry, rate: float, seed: int) -> Trial:
        """One trial of a trained model."""
        sizes = self.test_sizes(task_by_name(task))
        return Trial(self.training(task, entry, rate, seed), entry.tested, sizes, self.problems, self.items)


def run(arena: Arena, root: str | Path, engine: Engine, watch: Watch | None = None) -> dict[str, str]:
    """Run or continue the arena; return the reasons of the runs that failed, by what they were."""
    root = str(Path(root).absolute())  # workers may have another working folder
    failed: dict[str, str] = {}
    pairs = list(arena.pairs())

    def phase(name: str, configs: Iterable[Training | Trial]) -> None:
        failed.update(_map(name, list(dict.fromkeys(configs)), root, engine, watch or (lambda progress: None)))

    phase("sweep", (arena.training(task, entry, rate, 0) for task, entry in pairs for rate in arena.rates))
    chosen = {(task, entry): rate for task, entry in pairs if (rate := best_rate(arena, task, entry, root)) is not None}
    seeds = range(arena.seeds)
    phase("training", (arena.training(*pair, rate, seed) for seed in seeds for pair, rate in chosen.items()))
    trained = [
        arena.trial(*pair, rate, seed)
        for seed in seeds
        for pair, rate in chosen.items()
        if run_of(arena.training(*pair, rate, seed), root).finished
    ]
    phase("trials", trained)
    return failed


def best_rate(arena: Arena, task: str, entry: Entry, root: str | Path) -> float | None:
    """The rate of least validation loss among those finished; None when none is."""
    losses = {}
    for rate in arena.rates:
        found = run_of(arena.training(task, entry, rate, 0), root)
        if found.finished:
            losses[rate] = float(str(found.records()[0]["loss"]))
    return min(losses, key=lambda rate: (math.isnan(losses[rate]), losses[rate])) if losses else None


def collect(arena: Arena, root: str | Path) -> list[Record]:
    """Records of the arena's finished trials: a row for each task, entrant, seed, split and size."""
    out: list[Record] = []
    for task, entry in arena.pairs():
        rate = best_rate(arena, task, entry, root)
        if rate is None:
            continue
        for seed in range(arena.seeds):
            trial = arena.trial(task, entry, rate, seed)
            found = run_of(trial, root)
            if not found.finished:
                continue
            made = run_of(trial.training, root).records()[0]
            label: Record = {"task": task, "entry": entry.name, "seed": seed, "lr": rate}
            label |= {"train_" + key: made[key] for key in ("loss", "accuracy", "seconds")}
            label |= {key: made[key] for key in ("parameters", "normaliser_parameters")}
            out += [{**label, **row} for row in found.records()]
    return out


def failures(arena: Arena, root: str | Path) -> dict[str, str]:
    """Reasons noted by the last attempts at the arena's unfinished runs."""
    made = [(*pair, rate, seed) for pair in arena.pairs() for rate in arena.rates for seed in range(arena.seeds)]
    configs = [config for about in made for config in (arena.training(*about), arena.trial(*about))]
    found = {_name(config): run_of(config, root) for config in configs}
    return {name: run.failure for name, run in found.items() if run.failure is not None and not run.finished}


def _map(phase: str, configs: list[Training | Trial], root: str, engine: Engine, watch: Watch) -> dict[str, str]:
    """Carry out the runs that are not finished; those that others hold come last, and are then waited for."""
    todo = [Job(root, config) for config in configs if not run_of(config, root).finished]
    busy: list[Job] = []
    failed: dict[str, str] = {}
    given = done = 0

    def handed_out(jobs: list[Job]) -> Iterator[Job]:  # an engine takes a job when it has room for it
        nonlocal given
        for job in jobs:
            given += 1
            yield job

    for jobs in (todo, busy):
        for job, result in engine.map(carry_out, handed_out(jobs)):
            if result == BUSY:
                busy.append(replace(job, wait=True))
                given -= 1
            elif isinstance(result, Failure):
                failed[_name(job.config)] = str(result)
                with suppress(RecordsError):  # a full disk is told already
                    run_of(job.config, root).fail(str(result))  # again, since a worker that died could not
            else:
                done += 1
            watch(Progress(phase, len(todo), done, len(failed), given - done - len(failed)))
    return failed


def _name(config: Training | Trial) -> str:
    training = config if isinstance(config, Training) else config.training
    what = f"{training.task}, {training.normaliser}, seed {training.seed}, rate {training.lr:g}"
    return what if isinstance(config, Training) else f"{what}, tested with {config.normaliser}"
