"""Run the max-retrieval study of arXiv 2410.01104: train, survey in distribution, fit the rules, evaluate every size.

Nothing that a rule uses is chosen on a size above 64, four times the largest in training: fits come from `survey`,
whose sets are of the training sizes and of the validation sizes 16, 32 and 64. Every phase skips what is finished, so
an interrupted study continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

from strop.engine import Engine, Failure, Local
from strop.records import Record, StropError
from strop.studies import RUNS
from strop.studies.retrieval.checkpoint_folder import find_checkpoints
from strop.studies.retrieval.evaluation.fits import describe_fit, fit_rules
from strop.studies.retrieval.jobs import (
    EvaluateJob,
    ModelRef,
    StudyJob,
    SurveyJob,
    TrainJob,
    evaluate_model,
    survey_model,
    train_model,
)
from strop.studies.retrieval.meter import watch_meters
from strop.studies.retrieval.result import Reproduction
from strop.studies.retrieval.settings import SETTINGS
from strop.studies.retrieval.study import Study

Job = TypeVar("Job", bound=StudyJob)
Outcome = TypeVar("Outcome")
ShowPhase = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]
"""show_phase(title, total) → a context whose value is called with how much is done."""


def reproduce(
    study: Study | None = None,
    root: str | Path = RUNS,
    engine: Engine | None = None,
    show_phase: ShowPhase | None = None,
) -> Reproduction:
    """Run or continue the paper's study.

    Args:
        study: what to do; by default the whole study, which takes hours. `Study.quick()` takes minutes.
        root: folder for runs. What is finished there is not done again.
        engine: where runs execute; by default one process a core of this machine.
        show_phase: shows progress: called with a phase's title and total, it returns a context whose value is called
            with how much is done.

    Raises:
        StropError: a run failed; the message is that run's.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from strop.engine import Serial
        >>> from strop.studies.retrieval import Study, reproduce
        >>> tiny = Study(settings=("decay",), seeds=1, sizes=(16,), sets=8, survey_sets=24, steps=5)
        >>> with TemporaryDirectory() as folder:
        ...     result = reproduce(tiny, folder, Serial())
        >>> sorted(row["n"] for row in result.accuracy_rows() if row["rule"] == "adaptive")
        [16]
    """
    study, root, engine = study or Study(), str(root), engine or Local()
    show = show_phase or (lambda title, total: nullcontext(lambda done: None))
    models = _find_models(study) if study.bundled else _train_models(study, root, engine, show)
    numbered = [(f"model-{i}", model) for i, model in enumerate(models)]
    surveys = [SurveyJob(root, meter, model, study.survey_sets) for meter, model in numbered]
    surveyed = _flatten(_run_phase(survey_model, surveys, engine, show, "surveying"))
    fitted = fit_rules(surveyed, study.trained_size)
    evaluations = [
        EvaluateJob(root, meter, model, study.sizes, study.sets, fitted[model.setting, model.kind])
        for meter, model in numbered
    ]
    evaluated = _flatten(_run_phase(evaluate_model, evaluations, engine, show, "evaluating"))
    fits = [describe_fit(*key, value) for key, value in fitted.items()]
    return Reproduction(study, (*fits, *surveyed, *evaluated), tuple(models), Path(root))


def _train_models(study: Study, root: str, engine: Engine, show: ShowPhase) -> list[ModelRef]:
    named = [(name, study.train_config(name, seed)) for name in study.settings for seed in range(study.seeds)]
    todo = [TrainJob(root, f"training-{i}", config) for i, (_, config) in enumerate(named)]
    paths = _run_phase(train_model, todo, engine, show, "training")
    return [
        ModelRef(name, kind, config, path)
        for (name, config), path in zip(named, paths, strict=True)
        for kind in SETTINGS[name].kinds
    ]


def _find_models(study: Study) -> list[ModelRef]:
    return [
        ModelRef(name, kind, study.train_config(name, seed), str(path))
        for name in study.settings
        for seed, path in enumerate(find_checkpoints(name, study.seeds))
        for kind in SETTINGS[name].kinds
    ]


def _run_phase(
    function: Callable[[Job], Outcome], jobs: Sequence[Job], engine: Engine, show: ShowPhase, title: str
) -> list[Outcome]:
    """Run all jobs and return results in the order of `jobs`; the first failure ends the phase."""
    results: dict[str, Outcome] = {}
    meters, total = [job.meter for job in jobs], sum(job.cost for job in jobs)
    with show(title, total) as progress, watch_meters(jobs[0].root, meters, progress):
        for job, result in engine.map(function, jobs):
            if isinstance(result, Failure):
                raise StropError(f"{title} failed: {result.message or result.kind}")
            results[job.meter] = result
    return [results[meter] for meter in meters]


def _flatten(parts: Sequence[list[Record]]) -> list[Record]:
    return [row for part in parts for row in part]
