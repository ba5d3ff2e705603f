"""The two kinds of run in the arena, each a module-level function that an engine can run in another process.

    training   one model: task, normaliser, rate, seed, budget, shape   → weights, validation at training sizes
    trial      a trained model under a normaliser, at every size        → accuracy, top weight, entropy, time

Both live under the content address of their config and are skipped when finished. A run that another process holds
is left to it ("busy") or waited for. Runs take seconds to minutes, so a killed one starts again from its beginning.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from strop.records import DamagedFileError, Record, Run
from strop.records.tensors import write_tensors
from strop.studies.arena.configs import ARENA_FOLDER, Training, Trial
from strop.studies.arena.entries import Place, build_normaliser
from strop.studies.arena.measurement import measure_size
from strop.studies.arena.training import train_on
from strop.studies.networks.decoder import Decoder, DecoderConfig
from strop.studies.networks.seeding import build_seeded
from strop.studies.networks.set_reader import SetReader, SetReaderConfig
from strop.studies.problems.catalogue import find_problem
from strop.studies.problems.streams import stream
from strop.studies.problems.task import SequenceTask, SetTask, Task
from strop.studies.weights import WEIGHTS_FILE, one_thread

BUSY = "busy"
VALIDATION_PROBLEMS = 1024
"""Problems of training sizes on which rates are chosen."""


@dataclass(frozen=True)
class ArenaJob:
    """A run and where it goes; `wait` for a run that another process holds, or call it busy."""

    root: str
    config: Training | Trial
    wait: bool = False


def carry_out(job: ArenaJob) -> str:
    """Do the run unless it is done; return "done" or "busy". What goes wrong is noted in its folder and raised."""
    run = find_run(job.config, job.root)
    with run.claim(wait=job.wait) as ours:
        if not ours:
            return BUSY
        if not run.finished:
            run.begin(job.config)
            try:
                with one_thread():
                    found = _do(job.config, run, job.root)
                run.finish(job.config, found)
            except Exception as error:
                run.fail(f"{type(error).__name__}: {error}")
                raise
    return "done"


def _do(config: Training | Trial, run: Run, root: str) -> list[Record]:
    return _train_model(config, run) if isinstance(config, Training) else _test_model(config, root)


def find_run(config: Training | Trial, root: str | Path) -> Run:
    """The folder of a run."""
    return Run.of(config, ARENA_FOLDER, root)


def build_model(training: Training, normaliser: str | None = None) -> SetReader | Decoder:
    """The model as it starts: its weights depend on task, seed and shape, never on the normaliser."""
    task, spec = find_problem(training.task), normaliser or training.normaliser
    generator = stream("initial weights", training.task, training.seed)
    if isinstance(task, SetTask):
        place = Place(1, training.shape.width, task.length(task.train_sizes[1]))
        own = stream("initial normaliser", training.task, training.seed)
        rule = build_seeded(lambda: build_normaliser(spec, place), own)
        return SetReader(_reader_config(task, training), rule, generator)
    assert isinstance(task, SequenceTask)
    shape = training.shape
    place = Place(shape.heads, shape.width // shape.heads, task.length(task.train_sizes[1]))
    return Decoder(DecoderConfig(task.vocabulary, **asdict(shape)), lambda: build_normaliser(spec, place), generator)


def _reader_config(task: SetTask, training: Training) -> SetReaderConfig:
    return SetReaderConfig(
        features=task.features,
        query_features=task.query_features,
        classes=task.classes,
        width=training.shape.width,
        norm_after=training.shape.norm_after,
    )


def _train_model(training: Training, run: Run) -> list[Record]:
    task, model = find_problem(training.task), build_model(training)
    start = time.process_time()
    train_on(model, task, training.budget, training.lr, stream("training", training.task, training.seed))
    seconds = time.process_time() - start
    path = run.folder / WEIGHTS_FILE
    write_tensors(path, model.state_dict())
    learned = sum(p.numel() for name, p in model.named_parameters() if ".normaliser." in f".{name}")
    return [
        {
            **_validate(model, task, training),
            "seconds": seconds,
            "parameters": sum(p.numel() for p in model.parameters()),
            "normaliser_parameters": learned,
            "weights": _checksum(path),
        }
    ]


def _validate(model: SetReader | Decoder, task: Task, training: Training) -> Record:
    """Loss and accuracy on fresh problems of the training sizes: what rates are chosen by."""
    low, high = task.train_sizes
    each, sizes = VALIDATION_PROBLEMS // (high - low + 1), range(low, high + 1)
    streams = {n: stream("validation", training.task, n, training.seed) for n in sizes}
    found = [measure_size(model, task, n, each, streams[n]) for n in sizes]
    answers = sum(m.answers for m in found)
    return {
        "loss": sum(m.loss * m.answers for m in found) / answers,
        "accuracy": sum(m.accuracy * m.answers for m in found) / answers,
    }


def _test_model(trial: Trial, root: str) -> list[Record]:
    training = trial.training
    task = find_problem(training.task)
    model = load_trained(trial, root)
    out: list[Record] = []
    for split in task.splits:
        for size in trial.sizes:
            generator = stream(split, training.task, size, training.seed)
            found = measure_size(model, task, size, trial.count(task, size), generator, split)
            out.append({"split": split, "n": size, "length": task.length(size), **asdict(found)})
    return out


def load_trained(trial: Trial, root: str | Path) -> SetReader | Decoder:
    """The trained model with the normaliser that it is tested with; weights are checked against their record."""
    from safetensors.torch import load_file

    run = find_run(trial.training, root)
    path = run.folder / WEIGHTS_FILE
    if not path.exists() or _checksum(path) != run.records()[0]["weights"]:
        raise DamagedFileError(
            f"{path} must hold the weights that were trained, got others or none. Delete {run.folder}."
        )
    model = build_model(trial.training, trial.normaliser)
    weights = load_file(path)
    if trial.normaliser != trial.training.normaliser:  # parameters of the normaliser trained with have no place here
        weights = {name: value for name, value in weights.items() if ".normaliser." not in f".{name}"}
    missing = model.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys, missing.unexpected_keys
    return model.eval()


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
