"""Every normaliser, one harness: train small, test far larger.

Fair by construction: entrants of a task have the same problems, the same initial weights, the same shape and the same
budget. The learning rate is chosen for each by the validation loss of seed 0 at training sizes; test sizes choose
nothing. Entrants that differ only in what they are tested with share their trained models.

    sweep      every rate, seed 0                → the rate of each entrant
    training   that rate, the other seeds
    trials     every seed at every size

Finished runs are never run again, so the same call continues an arena that was killed, and arenas may share a
folder. A failed run is reported with its reason and counts nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from strop._checks import require
from strop.engine import Engine, Failure, Local
from strop.records import Record, RecordsError, real
from strop.studies import RUNS
from strop.studies.arena.arena import Arena
from strop.studies.arena.configs import Training, Trial
from strop.studies.arena.entries import Entry
from strop.studies.arena.result import ArenaResult
from strop.studies.arena.runs import BUSY, ArenaJob, carry_out, find_run

OnProgress = Callable[["ArenaProgress"], None]


@dataclass(frozen=True)
class ArenaProgress:
    """How a phase stands: what `on_progress` of `run_arena` is called with.

    Args:
        phase: "sweep", "training" or "trials".
        total: runs of the phase that were not finished before.
        done: of these, runs that ended well.
        failed: runs that did not.
        running: runs under way.

    Examples:
        >>> from strop.studies.arena import ArenaProgress
        >>> ArenaProgress("trials", total=12, done=3)
        ArenaProgress(phase='trials', total=12, done=3, failed=0, running=0)
    """

    phase: str
    total: int
    done: int = 0
    failed: int = 0
    running: int = 0


def run_arena(
    arena: Arena | None = None,
    root: str | Path = RUNS,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> ArenaResult:
    """Run or continue an arena.

    Args:
        arena: who takes part; by default the whole board, which takes hours. `Arena.quick()` takes minutes.
        root: folder for runs. What is finished there is not done again; several arenas may share it.
        engine: where runs execute; by default one process a core of this machine.
        on_progress: called with an `ArenaProgress` whenever a run ends.

    Returns:
        The board of what is finished, with the reason of every run that failed.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from strop.engine import Serial
        >>> from strop.studies.arena import Arena, Shape, run_arena
        >>> tiny = dict(rates=(4e-3,), steps=5, batch=4, sizes=(4, 20), problems=16, shape=Shape(width=8))
        >>> arena = Arena(tasks=("average",), entries=("softmax", "adaptive"), seeds=1, **tiny)
        >>> with TemporaryDirectory() as folder:
        ...     run_arena(arena, folder, Serial())
        ArenaResult(2 of 2 models tested. 0 runs failed.)
    """
    arena, engine = arena or Arena(), engine or Local()
    failed = _run_phases(arena, str(Path(root).absolute()), engine, on_progress or (lambda progress: None))
    return ArenaResult(arena, Path(root), tuple(collect_records(arena, root)), failed)


def read_arena(arena: Arena | None = None, root: str | Path = RUNS) -> ArenaResult:
    """Return the board of what is finished in a folder; run nothing.

    Args:
        arena: who takes part: the same as it was run with.
        root: folder of runs.

    Raises:
        ValueError: no run of this arena is there.

    Examples:
        >>> from strop.studies.arena import Arena, read_arena
        >>> read_arena(Arena.quick(), "nowhere")
        Traceback (most recent call last):
        strop.errors.ArgumentError: nowhere must hold finished runs of this arena, got none. ...
    """
    arena = arena or Arena()
    failed, records = list_failures(arena, root), collect_records(arena, root)
    remedy = "Run it, or repeat its settings"
    require(bool(failed or records), f"{root} must hold finished runs of this arena", "none", remedy)
    return ArenaResult(arena, Path(root), tuple(records), failed)


def best_rate(arena: Arena, task: str, entry: Entry, root: str | Path) -> float | None:
    """The rate of least validation loss among those finished; None when none is."""
    losses = {}
    for rate in arena.rates:
        found = find_run(arena.training(task, entry, rate, 0), root)
        if found.finished:
            losses[rate] = real(found.records()[0]["loss"])
    return min(losses, key=lambda rate: (math.isnan(losses[rate]), losses[rate])) if losses else None


def collect_records(arena: Arena, root: str | Path) -> list[Record]:
    """Records of the arena's finished trials: a row for each task, entrant, seed, split and size."""
    out: list[Record] = []
    for task, entry in arena.pairs():
        rate = best_rate(arena, task, entry, root)
        if rate is not None:
            for seed in range(arena.seeds):
                label: Record = {"task": task, "entry": entry.name, "seed": seed, "lr": rate}
                out += _collect_trial(label, arena.trial(task, entry, rate, seed), root)
    return out


def list_failures(arena: Arena, root: str | Path) -> dict[str, str]:
    """Reasons noted by the last attempts at the arena's unfinished runs, by what they were."""
    made = [(*pair, rate, seed) for pair in arena.pairs() for rate in arena.rates for seed in range(arena.seeds)]
    configs = [config for about in made for config in (arena.training(*about), arena.trial(*about))]
    found = {config.title: find_run(config, root) for config in configs}
    return {title: run.failure for title, run in found.items() if run.failure is not None and not run.finished}


def _collect_trial(label: Record, trial: Trial, root: str | Path) -> list[Record]:
    found = find_run(trial, root)
    if not found.finished:
        return []
    made = find_run(trial.training, root).records()[0]
    label |= {"train_" + key: made[key] for key in ("loss", "accuracy", "seconds")}
    label |= {key: made[key] for key in ("parameters", "normaliser_parameters")}
    return [{**label, **row} for row in found.records()]


def _run_phases(arena: Arena, root: str, engine: Engine, on_progress: OnProgress) -> dict[str, str]:
    """Run what is not finished; `root` is absolute, since workers may have another working folder."""
    failed: dict[str, str] = {}
    pairs, seeds = list(arena.pairs()), range(arena.seeds)

    def run(phase: str, configs: Iterable[Training | Trial]) -> None:
        failed.update(_run_phase(phase, list(dict.fromkeys(configs)), root, engine, on_progress))

    run("sweep", (arena.training(task, entry, rate, 0) for task, entry in pairs for rate in arena.rates))
    chosen = {(task, entry): rate for task, entry in pairs if (rate := best_rate(arena, task, entry, root)) is not None}
    run("training", (arena.training(*pair, rate, seed) for seed in seeds for pair, rate in chosen.items()))
    trials = [arena.trial(*pair, rate, seed) for seed in seeds for pair, rate in chosen.items()]
    run("trials", [trial for trial in trials if find_run(trial.training, root).finished])
    return failed


def _run_phase(
    phase: str, configs: list[Training | Trial], root: str, engine: Engine, on_progress: OnProgress
) -> dict[str, str]:
    """Carry out the runs that are not finished; those that others hold come last, and are then waited for."""
    todo = [ArenaJob(root, config) for config in configs if not find_run(config, root).finished]
    busy: list[ArenaJob] = []
    failed: dict[str, str] = {}
    given = done = 0

    def give(jobs: list[ArenaJob]) -> Iterator[ArenaJob]:  # an engine takes a job when it has room for it
        nonlocal given
        for job in jobs:
            given += 1
            yield job

    for jobs in (todo, busy):
        for job, result in engine.map(carry_out, give(jobs)):
            if result == BUSY:
                busy.append(replace(job, wait=True))
                given -= 1
            elif isinstance(result, Failure):
                failed[job.config.title] = str(result)
                with suppress(RecordsError):  # a full disk is told already
                    find_run(job.config, root).fail(str(result))  # again, since a worker that died could not
            else:
                done += 1
            on_progress(ArenaProgress(phase, len(todo), done, len(failed), given - done - len(failed)))
    return failed
