"""The three kinds of work in the study, each a module-level function that an engine can run in another process.

    train_model      a TrainConfig                      → weights on disk
    survey_model     a model, in-distribution sets      → entropies, best temperatures, class offsets, losses up to 64
    evaluate_model   a model, fitted rules, all sizes   → accuracy of every rule on the same sets

Each writes into its own run folder under the content address of its config and is skipped when that run is finished.
A model enters a config by the checksum of its weights, so results can never be taken for those of another model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from strop.records import Record, Run
from strop.studies.problems.max_retrieval import MaxRetrieval
from strop.studies.problems.streams import stream
from strop.studies.retrieval.evaluation.accuracy import Tally, evaluate_size
from strop.studies.retrieval.evaluation.class_offsets import measure_offsets, simulate_right_order
from strop.studies.retrieval.evaluation.fits import survey_size
from strop.studies.retrieval.evaluation.frozen_retriever import FrozenRetriever
from strop.studies.retrieval.evaluation.temperature_rules import Fitted, Rule, constant_rule, temperature_rules
from strop.studies.retrieval.meter import Meter
from strop.studies.retrieval.study import STUDY_FOLDER
from strop.studies.retrieval.training.checkpoint_file import digest, load_weights
from strop.studies.retrieval.training.resumable import train_or_continue
from strop.studies.retrieval.training.trainer import TrainConfig
from strop.studies.weights import one_thread

FINE_BETAS = tuple(round(2 ** (i / 4), 6) for i in range(-4, 25))
"""Constant inverse temperatures for the fits, ½ to 64, four to the octave."""
COARSE_BETAS = tuple(round(2 ** (i / 2), 6) for i in range(13))
"""Constant inverse temperatures for the hindsight, 1 to 64, two to the octave."""
VALIDATION_MULTIPLES = (1, 2, 4)
"""Sizes on which rules are fitted and chosen, in multiples of the largest in training."""
ORDER_SETS = 20_000


@dataclass(frozen=True)
class ModelRef:
    """One set of trained weights on disk."""

    setting: str
    kind: str
    train: TrainConfig
    path: str

    def load(self) -> FrozenRetriever:
        """Read and check the weights."""
        weights = load_weights(Path(self.path), self.kind, self.train)
        return FrozenRetriever.of(weights, self.train.model)

    @property
    def label(self) -> Record:
        """Who this is, for records."""
        return {"setting": self.setting, "weights": self.kind, "seed": self.train.seed}


@dataclass(frozen=True)
class SurveyConfig:
    """What a survey depends on."""

    weights: str
    task: MaxRetrieval
    seed: int
    sizes: tuple[int, int]
    sets: int
    validation: tuple[int, ...]
    betas: tuple[float, ...] = FINE_BETAS


@dataclass(frozen=True)
class EvaluateConfig:
    """What an evaluation depends on."""

    weights: str
    task: MaxRetrieval
    seed: int
    sizes: tuple[int, ...]
    sets: int
    fitted: Fitted
    rules: tuple[str, ...]
    betas: tuple[float, ...] = COARSE_BETAS


@dataclass(frozen=True)
class StudyJob:
    """One piece of work: where its results go, and the meter that says how far it is."""

    root: str
    meter: str

    @property
    def cost(self) -> int:
        """Units of work, as the meter counts them."""
        return 1


@dataclass(frozen=True)
class TrainJob(StudyJob):
    """Train one model."""

    train: TrainConfig

    @property
    def cost(self) -> int:
        """Steps."""
        return self.train.steps


@dataclass(frozen=True)
class SurveyJob(StudyJob):
    """Survey one model."""

    model: ModelRef
    sets: int


@dataclass(frozen=True)
class EvaluateJob(StudyJob):
    """Evaluate one model."""

    model: ModelRef
    sizes: tuple[int, ...]
    sets: int
    fitted: Fitted

    @property
    def cost(self) -> int:
        """Items."""
        return self.sets * sum(self.sizes)


def train_model(job: TrainJob) -> str:
    """Train one model; return the path of its weights."""
    run = Run.of(job.train, STUDY_FOLDER, job.root)
    meter = Meter.of(job.root, job.meter)
    path = train_or_continue(job.train, run, on_loss=lambda step, loss: meter.note(step))
    meter.note(job.cost)
    return str(path)


def survey_model(job: SurveyJob) -> list[Record]:
    """Survey one model on sizes it was trained on, and its losses at the validation sizes."""
    model, train = job.model.load(), job.model.train
    validation = tuple(train.sizes[1] * times for times in VALIDATION_MULTIPLES)
    config = SurveyConfig(digest(model.params.views), train.task, train.seed, train.sizes, job.sets, validation)
    return _do_once(config, job, lambda meter: _survey(model, config))


def evaluate_model(job: EvaluateJob) -> list[Record]:
    """Evaluate one model at every size."""
    model, train = job.model.load(), job.model.train
    names = tuple(temperature_rules(job.fitted))
    weights = digest(model.params.views)
    config = EvaluateConfig(weights, train.task, train.seed, job.sizes, job.sets, job.fitted, names)
    return _do_once(config, job, lambda meter: _evaluate(model, config, meter))


def _do_once(config: object, job: SurveyJob | EvaluateJob, work: Callable[[Meter], list[Record]]) -> list[Record]:
    run = Run.of(config, STUDY_FOLDER, job.root)
    meter = Meter.of(job.root, job.meter)
    if not run.finished:
        run.begin(config)
        with one_thread():
            found = work(meter)
        run.finish(config, found)
    meter.note(job.cost)
    return [{**job.model.label, **record} for record in run.records()]


def _survey(model: FrozenRetriever, c: SurveyConfig) -> list[Record]:
    out: list[Record] = []
    each = max(1, c.sets // (c.sizes[1] - c.sizes[0] + 1))
    found = [
        survey_size(model, c.task, size, each, stream("survey", size, c.seed))
        for size in range(c.sizes[0], c.sizes[1] + 1)
    ]
    entropy, missed, best = (torch.cat(parts) for parts in zip(*found, strict=True))
    out.append({"what": "train entropy", "value": float(entropy.double().mean())})
    out += [{"what": "example", "entropy": h, "beta": b} for h, b in zip(missed.tolist(), best.tolist(), strict=True)]
    shape = measure_offsets(model)
    out.append({"what": "slope", "value": shape.slope})
    out.append({"what": "offset deviation", "value": shape.deviation})
    out += [{"what": "offset", "class": i, "value": value} for i, value in enumerate(shape.by_class)]
    rules = temperature_rules(Fitted(train_entropy=float(entropy.double().mean()), trained=c.sizes[1]))
    for size in c.validation:
        tally = evaluate_size(model, c.task, size, each, stream("validation", size, c.seed), rules, _grid(c.betas))
        out += [{"what": "validation", "n": size, **row} for row in _rows(tally, c.betas)]
    return out


def _evaluate(model: FrozenRetriever, c: EvaluateConfig, meter: Meter) -> list[Record]:
    out: list[Record] = []
    rules, grid = temperature_rules(c.fitted), _grid(c.betas)
    for size in c.sizes:
        generator = stream("test", size, c.seed)
        tally = evaluate_size(model, c.task, size, c.sets, generator, rules, grid, meter.counter(size))
        out += [{"n": size, "sets": tally.sets, **row} for row in _rows(tally, c.betas)]
        out += [{"n": size, "statistic": name, "value": value} for name, value in tally.statistics.items()]
        simulated = simulate_right_order(model, size, ORDER_SETS, stream("order", size, c.seed))
        out.append({"n": size, "statistic": "right order, simulated", "value": simulated})
    return out


def _grid(betas: tuple[float, ...]) -> dict[str, Rule]:
    return {f"beta {beta:g}": constant_rule(beta) for beta in betas}


def _rows(tally: Tally, betas: tuple[float, ...]) -> list[Record]:
    grid = {f"beta {beta:g}" for beta in betas}
    return [
        {
            "rule": name,
            "grid": name in grid,
            "accuracy": accuracy,
            "loss": tally.nll.get(name),
            "beta": tally.beta.get(name),
        }
        for name, accuracy in tally.correct.items()
    ]
