"""The max-retrieval study of arXiv 2410.01104: train, survey in distribution, fit the rules, evaluate at every size.

    study = Study(seeds=10)
    records = run(study, root="runs", engine=Local())

Nothing that a rule uses is chosen on a size above 64, four times the largest in training: fits come from `survey`,
whose sets are of the training sizes and of the validation sizes 16, 32 and 64. Every phase skips what is finished, so
an interrupted study continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from strop._checks import require, require_distinct
from strop.engine import Engine, Failure
from strop.evaluate.refit import fit_gamma, fit_polynomial, least
from strop.evaluate.rules import Fitted
from strop.experiments import reproduce_jobs as jobs
from strop.experiments.meter import watched
from strop.experiments.reproduce_jobs import Job, ModelRef
from strop.experiments.reproduce_settings import DEFAULT, SETTINGS, SIZES
from strop.models.bundled import bundled
from strop.records import Record, StropError
from strop.tasks.max_retrieval import MaxRetrieval
from strop.train.trainer import TrainConfig

R = TypeVar("R")
Results = tuple[list[Record], list[ModelRef]]
Phase = Callable[[str, float], AbstractContextManager[Callable[[float], None]]]
"""phase(title, total) → a context whose value is called with how much is done."""


@dataclass(frozen=True)
class Study:
    """Everything the study's numbers depend on. `steps`, `train_sizes` and `classes` override every setting's own."""

    settings: tuple[str, ...] = DEFAULT
    seeds: int = 10
    sizes: tuple[int, ...] = SIZES
    sets: int = 2048
    survey_sets: int = 98_304
    steps: int | None = None
    train_sizes: tuple[int, int] | None = None
    classes: int | None = None
    bundled: bool = False

    @classmethod
    def quick(cls) -> Study:
        """The study in minutes: bundled models, fewer sets."""
        return cls(sets=128, survey_sets=12_288, bundled=True)

    def __post_init__(self) -> None:
        for name in ("seeds", "sets", "survey_sets"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}. Use the default.")
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"sizes must hold sizes of at least 1, got {self.sizes}. Use 16,32,64.")
        if not self.settings or (unknown := [name for name in self.settings if name not in SETTINGS]):
            got = ", ".join(unknown) if self.settings else "none"
            raise ValueError(f"settings must be known, got {got}. Known: {', '.join(SETTINGS)}.")
        require_distinct("settings", self.settings)
        require_distinct("sizes", self.sizes)
        if self.bundled and (self.steps, self.train_sizes, self.classes) != (None, None, None):
            raise ValueError("steps, train_sizes and classes must be left out with bundled models, which are trained.")

    @property
    def trained(self) -> int:
        """The largest size in training."""
        return self.train(self.settings[0], 0).sizes[1]

    def train(self, setting: str, seed: int) -> TrainConfig:
        """The training run of one seed of a setting."""
        config = replace(SETTINGS[setting].train, seed=seed)
        if self.steps is not None:
            config = replace(config, steps=self.steps, average_last=min(config.average_last, self.steps))
        if self.train_sizes is not None:
            config = replace(config, sizes=self.train_sizes)
        if self.classes is not None:
            task = MaxRetrieval(self.classes, self.classes + 1)
            model = replace(config.model, features=task.features, classes=task.classes)
            config = replace(config, task=task, model=model)
        return config


def run(study: Study, root: str | Path, engine: Engine, phase: Phase | None = None) -> Results:
    """Run or continue the study; return its records (see `strop.experiments.reproduce_jobs`) and its models."""
    show = phase or (lambda title, total: nullcontext(lambda done: None))
    models = _bundled_models(study) if study.bundled else _train(study, str(root), engine, show)
    todo = [Job(str(root), model, sets=study.survey_sets) for model in models]
    surveys = [row for rows in _map(jobs.run_survey, todo, engine, show, "surveying") for row in rows]
    fitted = fit(surveys, study.trained)
    todo = [Job(str(root), m, sizes=study.sizes, sets=study.sets, fitted=fitted[m.setting, m.kind]) for m in models]
    evaluations = _map(jobs.run_evaluate, todo, engine, show, "evaluating")
    fits = [_fit_record(*key, value) for key, value in fitted.items()]
    return [*fits, *surveys, *(row for rows in evaluations for row in rows)], models


def fit(surveys: Iterable[Record], trained: int) -> dict[tuple[str, str], Fitted]:
    """The numbers of the rules, for each setting and kind of weights, pooled over seeds."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in surveys:
        groups.setdefault((str(record["setting"]), str(record["weights"])), []).append(record)
    return {key: _fit(rows, trained) for key, rows in groups.items()}


def _fit(rows: Sequence[Record], trained: int) -> Fitted:
    examples: list[dict[str, Any]] = [dict(row) for row in rows if row["what"] == "example"]
    entropy: list[Any] = [row["value"] for row in rows if row["what"] == "train entropy"]
    grid: dict[int, dict[float, list[Any]]] = {}
    for row in rows:
        if row["what"] == "validation" and row["grid"]:
            at = grid.setdefault(int(str(row["n"])), {})
            at.setdefault(float(str(row["rule"]).split()[1]), []).append(row["accuracy"])
    best = {n: least(list(at), [-sum(v) / len(v) for v in at.values()]) for n, at in grid.items()}
    return Fitted(
        refit=fit_polynomial([e["entropy"] for e in examples], [e["beta"] for e in examples]),
        train_entropy=sum(entropy) / len(entropy),
        gamma=fit_gamma(best, trained),
        trained=trained,
    )


def _fit_record(setting: str, weights: str, fitted: Fitted) -> Record:
    out: Record = {"setting": setting, "weights": weights, "what": "fit", "trained": fitted.trained}
    out |= {"train entropy": fitted.train_entropy, "gamma": fitted.gamma}
    return out | {f"refit H^{len(fitted.refit) - 1 - i}": c for i, c in enumerate(fitted.refit)}


def _train(study: Study, root: str, engine: Engine, show: Phase) -> list[ModelRef]:
    named = [(name, study.train(name, seed)) for name in study.settings for seed in range(study.seeds)]
    todo = [Job(root, train=config) for _, config in named]
    paths = _map(jobs.run_train, todo, engine, show, "training")
    return [
        ModelRef(name, kind, config, path)
        for (name, config), path in zip(named, paths, strict=True)
        for kind in SETTINGS[name].kinds
    ]


def _bundled_models(study: Study) -> list[ModelRef]:
    out = []
    for name in study.settings:
        paths = bundled(name)[: study.seeds]
        remedy = "Ask for fewer seeds" if paths else "Leave out --quick to train them"
        require(len(paths) == study.seeds, f"{name} must have {study.seeds} bundled models", len(paths), remedy)
        out += [
            ModelRef(name, kind, study.train(name, seed), str(path))
            for seed, path in enumerate(paths)
            for kind in SETTINGS[name].kinds
        ]
    return out


def _map(function: Callable[[Job], R], todo: list[Job], engine: Engine, show: Phase, title: str) -> list[R]:
    """Run all jobs and return results in the order of `todo`; the first failure ends the phase."""
    named = [replace(job, meter=f"{title}-{i}") for i, job in enumerate(todo)]
    results: dict[str, R] = {}
    meters, total = [job.meter for job in named], sum(jobs.cost(job) for job in named)
    with show(title, total) as progress, watched(named[0].root, meters, progress):
        for job, result in engine.map(function, named):
            if isinstance(result, Failure):
                raise StropError(f"{title} failed: {result.message or result.kind}")
            results[job.meter] = result
    return [results[job.meter] for job in named]
