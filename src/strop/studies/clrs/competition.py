"""The study itself: sweep, training, trials, as the arena's. Finished runs are never run again.

sweep      every rate, seed 0, fewer steps   → the rate of each normaliser in training, by loss at training sizes
training   that rate, every seed
trials     every arm, seed and size
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from strop._checks import require
from strop.engine import Engine, Failure, Local
from strop.records import Record, real, whole
from strop.studies import RUNS
from strop.studies.clrs.configs import ClrsTraining, ClrsTrial
from strop.studies.clrs.result import ClrsResult
from strop.studies.clrs.runs import ClrsJob, do_clrs_run, find_clrs_run
from strop.studies.clrs.study import ClrsStudy

OnRun = Callable[[str, int, int], None]
"""Told the phase, how many of its runs ended, and how many it has."""


def run_clrs(
    study: ClrsStudy | None = None,
    root: str | Path = RUNS,
    engine: Engine | None = None,
    on_run: OnRun | None = None,
) -> ClrsResult:
    """Run or continue the CLRS-Text study.

    Args:
        study: what takes part; by default all of it, which takes hours. `ClrsStudy.quick()` takes minutes.
        root: folder for runs. What is finished there is not done again.
        engine: where runs execute; by default one process a core of this machine.
        on_run: called with the phase, the runs that ended and the runs there are, whenever one ends.

    Returns:
        What is finished, with the reason of every run that failed.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from strop.engine import Serial
        >>> from strop.studies.clrs import ClrsStudy, DecoderShape, TokenBudget, run_clrs
        >>> tiny = dict(budget=TokenBudget(steps=2, tokens=64, warmup=1), shape=DecoderShape(width=8, layers=1))
        >>> study = ClrsStudy.quick(algorithms=("minimum",), arms=("softmax",), problems=2, **tiny)
        >>> with TemporaryDirectory() as folder:
        ...     run_clrs(study, folder, Serial())
        ClrsResult(1 of 1 models tested. 0 runs failed.)
    """
    study, engine = study or ClrsStudy(), engine or Local()
    where, tell = str(Path(root).absolute()), on_run or (lambda phase, done, total: None)
    failed: dict[str, str] = {}

    def run(phase: str, configs: Iterable[ClrsTraining | ClrsTrial]) -> None:
        todo = [c for c in dict.fromkeys(configs) if not find_clrs_run(c, where).finished]
        jobs = (ClrsJob(where, config) for config in todo)
        for done, (job, result) in enumerate(engine.map(do_clrs_run, jobs), 1):
            if isinstance(result, Failure):
                failed[job.config.title] = str(result)
            tell(phase, done, len(todo))

    if len(study.rates) > 1:
        run("sweep", (study.sweep(arm, rate) for arm in study.arms for rate in study.rates))
    chosen = {arm: rate for arm in study.arms if (rate := choose_rate(study, arm, where)) is not None}
    seeds = [(arm, rate, seed) for seed in range(study.seeds) for arm, rate in chosen.items()]
    run("training", (study.training(*one) for one in seeds))
    trials = [study.trial(*one) for one in seeds]
    run("trials", [trial for trial in trials if find_clrs_run(trial.training, where).finished])
    return ClrsResult(study, Path(root), tuple(collect_clrs(study, root)), failed)


def read_clrs(study: ClrsStudy | None = None, root: str | Path = RUNS) -> ClrsResult:
    """Return what is finished in a folder; run nothing.

    Args:
        study: what takes part: the same as it was run with.
        root: folder of runs.

    Raises:
        ValueError: no run of this study is there.

    Examples:
        >>> from strop.studies.clrs import ClrsStudy, read_clrs
        >>> read_clrs(ClrsStudy.quick(), "nowhere")
        Traceback (most recent call last):
        strop.errors.ArgumentError: nowhere must hold finished runs of this study, got none. ...
    """
    study = study or ClrsStudy()
    records = collect_clrs(study, root)
    remedy = "Run it, or repeat its settings"
    require(bool(records), f"{root} must hold finished runs of this study", "none", remedy)
    return ClrsResult(study, Path(root), tuple(records), {})


def choose_rate(study: ClrsStudy, arm: str, root: str | Path) -> float | None:
    """The rate of least loss on fresh questions of training sizes; None when none is finished."""
    if len(study.rates) == 1:
        return study.rates[0]
    found = {rate: find_clrs_run(study.sweep(arm, rate), root) for rate in study.rates}
    losses = {rate: real(run.records()[0]["loss"]) for rate, run in found.items() if run.finished}
    return min(losses, key=lambda rate: (math.isnan(losses[rate]), losses[rate])) if losses else None


def collect_clrs(study: ClrsStudy, root: str | Path) -> list[Record]:
    """Rows of all finished trials."""
    out: list[Record] = []
    for arm in study.arms:
        rate = choose_rate(study, arm, root)
        for seed in range(study.seeds if rate is not None else 0):
            assert rate is not None
            trial = find_clrs_run(study.trial(arm, rate, seed), root)
            for row in trial.records() if trial.finished else ():
                region = study.region(str(row["algorithm"]), whole(row["n"]))
                out.append({"arm": arm, "seed": seed, "lr": rate, "region": region, **row})
    return out
