"""The three kinds of work in the study, each a module-level function that an engine can run in another process.

    train      a TrainConfig                      → weights on disk
    survey     a model, in-distribution sets      → entropies, best temperatures, class offsets, losses up to 64 items
    evaluate   a model, fitted rules, all sizes   → accuracy of every rule on the same sets

Each writes into its own run folder under the content address of its config and is skipped when that run is finished.
A model enters a config by the checksum of its weights, so results can never be taken for those of another model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from strop.evaluate import order, refit
from strop.evaluate.frozen import Frozen, Tally, evaluate
from strop.evaluate.rules import Fitted, constant, rules
from strop.experiments.meter import Meter
from strop.records import Record, Run
from strop.tasks.max_retrieval import MaxRetrieval
from strop.tasks.streams import stream
from strop.train.checkpoint import digest, load_weights
from strop.train.resumable import one_thread, train
from strop.train.trainer import TrainConfig

EXPERIMENT = "reproduce"
FINE = tuple(round(2 ** (i / 4), 6) for i in range(-4, 25))
"""Constant inverse temperatures for the fits, ½ to 64, four to the octave."""
BETAS = tuple(round(2 ** (i / 2), 6) for i in range(13))
"""Constant inverse temperatures for the hindsight, 1 to 64, two to the octave."""
VALIDATION = (1, 2, 4)
"""Sizes on which rules are fitted and chosen, in multiples of the largest in training."""
ORDER_SETS = 20_000


@dataclass(frozen=True)
class ModelRef:
    """One set of trained weights on disk."""

    setting: str
    kind: str
    train: TrainConfig
    path: str

    def load(self) -> Frozen:
        """Read and check the weights."""
        weights = load_weights(Path(self.path), self.kind, self.train)
        return Frozen.of(weights, self.train.model)

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
    betas: tuple[float, ...] = FINE


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
    betas: tuple[float, ...] = BETAS


@dataclass(frozen=True)
class Job:
    """One piece of work: what to do, where results go, where to say how far it is."""

    root: str
    model: ModelRef | None = None
    train: TrainConfig | None = None
    sizes: tuple[int, ...] = ()
    sets: int = 0
    fitted: Fitted = field(default_factory=Fitted)
    every: int = 5_000
    meter: str = "job"


def run_train(job: Job) -> str:
    """Train one model; return the path of its weights."""
    assert job.train is not None
    run = Run.of(job.train, EXPERIMENT, job.root)
    meter = Meter.of(job.root, job.meter)
    path = train(job.train, run, job.every, lambda step, loss: meter.note(step))
    meter.note(job.train.steps)
    return str(path)


def run_survey(job: Job) -> list[Record]:
    """Survey one model on sizes it was trained on, and its losses at the validation sizes."""
    model, ref = _open(job)
    sizes, validation = ref.train.sizes, tuple(ref.train.sizes[1] * times for times in VALIDATION)
    config = SurveyConfig(digest(model.params.views), ref.train.task, ref.train.seed, sizes, job.sets, validation)
    return _once(config, job, lambda meter: _survey(model, config))


def run_evaluate(job: Job) -> list[Record]:
    """Evaluate one model at every size."""
    model, ref = _open(job)
    weights = digest(model.params.views)
    names = tuple(rules(job.fitted))
    config = EvaluateConfig(weights, ref.train.task, ref.train.seed, job.sizes, job.sets, job.fitted, names)
    return _once(config, job, lambda meter: _evaluate(model, config, meter))


def _open(job: Job) -> tuple[Frozen, ModelRef]:
    assert job.model is not None
    return job.model.load(), job.model


def _once(config: object, job: Job, work: Callable[[Meter], list[Record]]) -> list[Record]:
    assert job.model is not None
    run = Run.of(config, EXPERIMENT, job.root)
    meter = Meter.of(job.root, job.meter)
    if not run.finished:
        run.begin(config)
        with one_thread():
            found = work(meter)
        run.finish(config, found)
    meter.note(cost(job))
    return [{**job.model.label, **record} for record in run.records()]


def cost(job: Job) -> int:
    """Units of work of a job, as its meter counts them: steps, or items."""
    if job.train is not None:
        return job.train.steps
    return job.sets * sum(job.sizes) if job.sizes else 1


def _survey(model: Frozen, c: SurveyConfig) -> list[Record]:
    out: list[Record] = []
    each = max(1, c.sets // (c.sizes[1] - c.sizes[0] + 1))
    found = [
        refit.survey(model, c.task, size, each, stream("survey", size, c.seed))
        for size in range(c.sizes[0], c.sizes[1] + 1)
    ]
    entropy, missed, best = (torch.cat(parts) for parts in zip(*found, strict=True))
    out.append({"what": "train entropy", "value": float(entropy.double().mean())})
    out += [{"what": "example", "entropy": h, "beta": b} for h, b in zip(missed.tolist(), best.tolist(), strict=True)]
    shape = order.offsets(model)
    out.append({"what": "slope", "value": shape.slope})
    out.append({"what": "offset deviation", "value": shape.deviation})
    out += [{"what": "offset", "class": i, "value": value} for i, value in enumerate(shape.by_class)]
    every = rules(Fitted(train_entropy=float(entropy.double().mean()), trained=c.sizes[1]))
    for size in c.validation:
        tally = evaluate(model, c.task, size, each, stream("validation", size, c.seed), every, _grid(c.betas))
        out += [{"what": "validation", "n": size, **row} for row in _rows(tally, c.betas)]
    return out


def _evaluate(model: Frozen, c: EvaluateConfig, meter: Meter) -> list[Record]:
    out: list[Record] = []
    for size in c.sizes:
        generator = stream("test", size, c.seed)
        tick = meter.counter(size)
        tally = evaluate(model, c.task, size, c.sets, generator, rules(c.fitted), _grid(c.betas), tick)
        out += [{"n": size, "sets": tally.sets, **row} for row in _rows(tally, c.betas)]
        out += [{"n": size, "statistic": name, "value": value} for name, value in tally.statistics.items()]
        simulated = order.right_order(model, size, ORDER_SETS, stream("order", size, c.seed))
        out.append({"n": size, "statistic": "right order, simulated", "value": simulated})
    return out


def _grid(betas: tuple[float, ...]) -> dict[str, Callable[..., torch.Tensor]]:
    return {f"beta {beta:g}": constant(beta) for beta in betas}


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
