"""The two kinds of run of the study, as a function that an engine can run in another process.

    training   one model: lessons, normaliser, rate, seed, budget, shape            → weights, loss at training sizes
    trial      a trained model under a normaliser, at every size                    → exact answers, tokens, attention

Both live under the content address of their config and are skipped when finished. A killed run starts again from its
beginning: it takes minutes.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from strop.records import DamagedFileError, Record, Run, real
from strop.records.tensors import write_tensors
from strop.studies.clrs.configs import CLRS_FOLDER, ClrsTraining, ClrsTrial
from strop.studies.clrs.fitting import fit_answers
from strop.studies.clrs.marking import mark_size
from strop.studies.clrs.models import EDGE, Learner, open_learner
from strop.studies.clrs.text.catalogue import find_algorithm
from strop.studies.problems.streams import stream
from strop.studies.weights import WEIGHTS_FILE, one_thread

VALIDATION = 64
"""Fresh questions of each training size on which rates are chosen."""
EDGE_RATE = 0.03


@dataclass(frozen=True)
class ClrsJob:
    """A run and where it goes."""

    root: str
    config: ClrsTraining | ClrsTrial


def do_clrs_run(job: ClrsJob) -> str:
    """Do the run unless it is done. What goes wrong is noted in its folder and raised."""
    run = find_clrs_run(job.config, job.root)
    with run.claim():
        if not run.finished:
            run.begin(job.config)
            try:
                with one_thread():
                    found = _train(job.config, run) if isinstance(job.config, ClrsTraining) else _test(job)
                run.finish(job.config, found)
            except Exception as error:
                run.fail(f"{type(error).__name__}: {error}")
                raise
    return "done"


def find_clrs_run(config: ClrsTraining | ClrsTrial, root: str | Path) -> Run:
    """The folder of a run."""
    return Run.of(config, CLRS_FOLDER, root)


def _train(training: ClrsTraining, run: Run) -> list[Record]:
    with open_learner(training) as learner:
        start = time.process_time()
        generator = stream("training", training.seed)
        fit_answers(learner, training.lessons, training.budget, training.lr, generator)
        seconds = time.process_time() - start
        write_tensors(run.folder / WEIGHTS_FILE, learner.learned)
        found = _validate(learner, training)
    learned = sum(value.numel() for value in learner.learned.values())
    return [{**found, "seconds": seconds, "learned": learned, "weights": _checksum(run.folder / WEIGHTS_FILE)}]


def _validate(learner: Learner, training: ClrsTraining) -> Record:
    """Loss and exact answers on fresh questions of the training sizes, means over algorithms and sizes."""
    rows: list[Record] = []
    for lesson in training.lessons:
        algorithm = find_algorithm(lesson.algorithm)
        for n in lesson.sizes:
            generator = stream("validation", algorithm.name, n)
            rows += mark_size(learner, algorithm, n, VALIDATION, generator, places=False)
    return {name: sum(real(row[name]) for row in rows) / len(rows) for name in ("loss", "exact", "tokens")}


def _test(job: ClrsJob) -> list[Record]:
    trial = job.config
    assert isinstance(trial, ClrsTrial)
    weights = _read_weights(trial.training, job.root)
    rule = EDGE if trial.edge_steps else trial.tested
    rows: list[Record] = []
    with open_learner(trial.training, rule) as learner:
        learner.load(weights)
        learner.model.eval()
        about = _calibrate(learner, trial) if trial.edge_steps else {}
        for lesson in trial.lessons:
            for n in lesson.sizes:
                generator = stream("test", lesson.algorithm, n, trial.training.seed)
                rows += mark_size(learner, find_algorithm(lesson.algorithm), n, trial.problems, generator)
    return [row | about for row in rows]


def _calibrate(learner: Learner, trial: ClrsTrial) -> Record:
    """Learn the edge's numbers alone, on questions that no training and no test has."""
    training = trial.training
    budget = replace(training.budget, steps=trial.edge_steps, warmup=min(10, trial.edge_steps))
    for name, value in learner.learned.items():
        value.requires_grad_(name in learner.rules)
    fit_answers(learner, trial.edge_lessons, budget, EDGE_RATE, stream("edge", training.seed))
    return {"edge_numbers": sum(value.numel() for value in learner.rules.values())}


def _read_weights(training: ClrsTraining, root: str) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    run = find_clrs_run(training, root)
    path = run.folder / WEIGHTS_FILE
    if not path.exists() or _checksum(path) != run.records()[0]["weights"]:
        raise DamagedFileError(
            f"{path} must hold the weights that were trained, got others or none. Delete {run.folder}."
        )
    return dict(load_file(path))


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
