"""One training run in its own folder: begin or continue, checkpoint, finish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from strop._checks import require
from strop.records import Record, RecordsError, Run
from strop.train.checkpoint import load_trainer, save_trainer, save_weights
from strop.train.trainer import LOG_EVERY, Progress, TrainConfig, Trainer

WEIGHTS = "weights.safetensors"
STATE = "state.safetensors"


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread inside the block: another number adds in another order, and the bytes would differ."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(config: TrainConfig, run: Run, every: int = 5_000, tick: Progress | None = None) -> Path:
    """Train to the end, or return at once if that was done; a killed run loses at most `every` steps."""
    weights = run.folder / WEIGHTS
    if run.finished:
        run.records()  # raises if the folder was tampered with
        remedy = f"Delete {run.folder} and run again"
        require(
            weights.exists(), f"{run.folder} must hold {WEIGHTS}", "a finished run without it", remedy, RecordsError
        )
        return weights
    run.begin(config)
    state = run.folder / STATE
    trainer = load_trainer(state, config)
    with one_thread():
        while trainer.step < config.steps:
            trainer.run(min(config.steps, (trainer.step // every + 1) * every), tick)
            save_trainer(state, trainer)
    save_weights(weights, trainer)
    run.finish(config, _losses(trainer))
    state.unlink(missing_ok=True)
    return weights


def _losses(trainer: Trainer) -> list[Record]:
    return [{"step": (i + 1) * LOG_EVERY, "loss": loss} for i, loss in enumerate(trainer.losses)]
