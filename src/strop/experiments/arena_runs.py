"""The two kinds of run in the arena, each a module-level function that an engine can run in another process.

    training   one model: task, normaliser, rate, seed, budget, shape   → weights, validation at training sizes
    trial      a trained model under a normaliser, at every size        → accuracy, top weight, entropy, time

Both live under the content address of their config and are skipped when finished. A run that another process holds
is left to it ("busy") or waited for. Runs take seconds to minutes, so a killed one starts again from its beginning.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from torch import nn

from strop.evaluate.sizes import measure
from strop.experiments.arena_entries import Place, build
from strop.models.decoder import Decoder, DecoderConfig
from strop.models.reader import Reader, ReaderConfig
from strop.models.seeded import seeded
from strop.records import DamagedFileError, Record, Run, atomic_path
from strop.tasks.problems import SequenceTask, SetTask, Task, task_by_name
from strop.tasks.streams import stream
from strop.train.loop import Budget, train_on
from strop.train.resumable import WEIGHTS, one_thread

EXPERIMENT = "arena"
BUSY = "busy"
VALIDATION = 1024
"""Problems of training sizes on which rates are chosen."""


@dataclass(frozen=True)
class Shape:
    """The model: a retriever of this width for sets, a decoder for sequences."""

    width: int = 64
    heads: int = 4
    layers: int = 2
    positions: str = "rope"
    smear: bool = True
    norm_after: bool = False

    def of(self, kind: str) -> Shape:
        """The shape without what this kind of task does not use, so that its runs do not depend on it."""
        return self if kind == "sequence" else replace(self, heads=1, layers=1, positions="none", smear=False)


@dataclass(frozen=True)
class Training:
    """Everything that the weights of one model depend on."""

    task: str
    normaliser: str
    lr: float
    seed: int
    budget: Budget = field(default_factory=Budget)
    shape: Shape = field(default_factory=Shape)


@dataclass(frozen=True)
class Trial:
    """Everything that the figures of one model depend on: `items` bounds problems · length at each size."""

    training: Training
    normaliser: str
    sizes: tuple[int, ...]
    problems: int = 512
    items: int = 2**20

    def count(self, task: Task, size: int) -> int:
        """Problems asked at a size."""
        return max(16, min(self.problems, self.items // task.length(size)))


@dataclass(frozen=True)
class Job:
    """A run and where it goes; `wait` for a run that another process holds, or call it busy."""

    root: str
    config: Training | Trial
    wait: bool = False


def carry_out(job: Job) -> str:
    """Do the run unless it is done; return "done" or "busy". What goes wrong is noted in its folder and raised."""
    run = run_of(job.config, job.root)
    with run.claimed(wait=job.wait) as ours:
        if not ours:
            return BUSY
        if not run.finished:
            run.begin(job.config)
            try:
                with one_thread():
                    found = _train(job.config, run) if isinstance(job.config, Training) else _try(job.config, job.root)
                run.finish(job.config, found)
            except Exception as error:
                run.fail(f"{type(error).__name__}: {error}")
                raise
    return "done"


def run_of(config: Training | Trial, root: str | Path) -> Run:
    """The folder of a run."""
    return Run.of(config, EXPERIMENT, root)


def model_of(training: Training, normaliser: str | None = None) -> Reader | Decoder:
    """The model as it starts: its weights depend on task, seed and shape, never on the normaliser."""
    task, shape = task_by_name(training.task), training.shape
    spec, generator = normaliser or training.normaliser, stream("initial weights", training.task, training.seed)
    longest = task.length(task.train_sizes[1])
    if isinstance(task, SetTask):
        place = Place(1, shape.width, longest)
        config = ReaderConfig(
            features=task.features,
            query_features=task.query_features,
            classes=task.classes,
            width=shape.width,
            norm_after=shape.norm_after,
        )
        own = stream("initial normaliser", training.task, training.seed)
        return Reader(config, seeded(lambda: build(spec, place), own), generator)
    assert isinstance(task, SequenceTask)
    place = Place(shape.heads, shape.width // shape.heads, longest)
    return Decoder(DecoderConfig(task.vocabulary, **asdict(shape)), lambda: build(spec, place), generator)


def _train(training: Training, run: Run) -> list[Record]:
    task = task_by_name(training.task)
    model = model_of(training)
    learned = sum(p.numel() for name, p in model.named_parameters() if ".normaliser." in f".{name}")
    start = time.process_time()
    train_on(model, task, training.budget, training.lr, stream("training", training.task, training.seed))
    seconds = time.process_time() - start
    path = run.folder / WEIGHTS
    _save(model, path)
    low, high = task.train_sizes
    found = [
        measure(model, task, n, VALIDATION // (high - low + 1), stream("validation", training.task, n, training.seed))
        for n in range(low, high + 1)
    ]
    answers = sum(m.answers for m in found)
    return [
        {
            "loss": sum(m.loss * m.answers for m in found) / answers,
            "accuracy": sum(m.accuracy * m.answers for m in found) / answers,
            "seconds": seconds,
            "parameters": sum(p.numel() for p in model.parameters()),
            "normaliser_parameters": learned,
            "weights": _checksum(path),
        }
    ]


def _try(trial: Trial, root: str) -> list[Record]:
    training = trial.training
    task = task_by_name(training.task)
    model = trained(trial, root)
    out: list[Record] = []
    for split in task.splits:
        for size in trial.sizes:
            generator = stream(split, training.task, size, training.seed)
            found = measure(model, task, size, trial.count(task, size), generator, split)
            out.append({"split": split, "n": size, "length": task.length(size), **asdict(found)})
    return out


def trained(trial: Trial, root: str | Path) -> Reader | Decoder:
    """The trained model with the normaliser that it is tested with; weights are checked against their record."""
    from safetensors.torch import load_file

    run = run_of(trial.training, root)
    path = run.folder / WEIGHTS
    if not path.exists() or _checksum(path) != run.records()[0]["weights"]:
        raise DamagedFileError(
            f"{path} must hold the weights that were trained, got others or none. Delete {run.folder}."
        )
    model = model_of(trial.training, trial.normaliser)
    weights = load_file(path)
    if trial.normaliser != trial.training.normaliser:  # parameters of the normaliser trained with have no place here
        weights = {name: value for name, value in weights.items() if ".normaliser." not in f".{name}"}
    missing = model.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys, missing.unexpected_keys
    return model.eval()


def _save(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_file

    with atomic_path(path) as temporary:
        save_file({name: value.contiguous() for name, value in model.state_dict().items()}, temporary)


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
