"""One training run in its own folder: begin or continue, checkpoint, finish."""

from __future__ import annotations

from pathlib import Path

from strop._checks import require
from strop.records import Record, RecordsError, Run
from strop.studies.retrieval.training.checkpoint_file import load_trainer, save_trainer, save_weights
from strop.studies.retrieval.training.trainer import LOG_EVERY, OnLoss, TrainConfig, Trainer
from strop.studies.weights import WEIGHTS_FILE, one_thread

STATE_FILE = "state.safetensors"
SAVE_EVERY = 5_000
"""Steps after which the state is saved: what a killed run may lose."""


def train_or_continue(config: TrainConfig, run: Run, every: int = SAVE_EVERY, on_loss: OnLoss | None = None) -> Path:
    """Train to the end, or return at once if that was done; a killed run loses at most `every` steps."""
    weights = run.folder / WEIGHTS_FILE
    if run.finished:
        _check_finished(run, weights)
        return weights
    run.begin(config)
    state = run.folder / STATE_FILE
    trainer = load_trainer(state, config)
    with one_thread():
        while trainer.step < config.steps:
            trainer.run(min(config.steps, (trainer.step // every + 1) * every), on_loss)
            save_trainer(state, trainer)
    save_weights(weights, trainer)
    run.finish(config, _losses(trainer))
    state.unlink(missing_ok=True)
    return weights


def _check_finished(run: Run, weights: Path) -> None:
    run.records()  # raises if the folder was tampered with
    rule, remedy = f"{run.folder} must hold {WEIGHTS_FILE}", f"Delete {run.folder} and run again"
    require(weights.exists(), rule, "a finished run without it", remedy, RecordsError)


def _losses(trainer: Trainer) -> list[Record]:
    return [{"step": (i + 1) * LOG_EVERY, "loss": loss} for i, loss in enumerate(trainer.losses)]
