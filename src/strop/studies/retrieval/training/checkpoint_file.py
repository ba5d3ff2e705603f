"""Tensors on disk that are either whole and the right ones, or refused.

A file is safetensors (never pickle) with three strings of metadata: `config`, the canonical JSON of what made it,
`step`, and `sha256` over names, shapes, types and bytes of the tensors. It is written beside its target and renamed
over it, so a reader finds the old file or the new one. Truncated, altered, or made by another config: an error that
says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from strop.records import DamagedFileError, RecordsError, canonical
from strop.records.tensors import read_tensors, write_tensors
from strop.studies.networks.fast_retriever import FlatParameters
from strop.studies.retrieval.training.trainer import TrainConfig, Trainer

AGAIN = "Delete the folder of its run and run again"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], config: object, step: int) -> None:
    """Write tensors atomically."""
    held = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    metadata = {"config": canonical(config), "step": str(step), "sha256": digest(held)}
    write_tensors(path, held, metadata)


def load_tensors(path: Path, config: object | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata; with `config`, insist that this config made them."""
    tensors, metadata = read_tensors(path, AGAIN)
    if metadata.get("sha256") != digest(tensors):
        raise DamagedFileError(f"{path} must hold what was written, got tensors with another checksum. {AGAIN}.")
    if config is not None and metadata.get("config") != canonical(config):
        raise RecordsError(f"{path} must belong to this config, got one made by another. Choose another folder.")
    return tensors, metadata


def digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over everything that makes two sets of tensors different."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        total.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def save_trainer(path: Path, trainer: Trainer) -> None:
    """Write all that `load_trainer` needs to continue."""
    save_tensors(path, trainer.state(), trainer.config, trainer.step)


def load_trainer(path: Path, config: TrainConfig) -> Trainer:
    """Continue from `path` if it is there, else begin at step 0."""
    trainer = Trainer(config)
    if path.exists():
        trainer.load_state(load_tensors(path, config)[0])
    return trainer


def save_weights(path: Path, trainer: Trainer) -> None:
    """The finished model: `last.*`, the weights of the last step, and `average.*`, the mean of the last steps."""
    last = {f"last.{name}": view for name, view in trainer.params.views.items()}
    mean = FlatParameters(trainer.config.model)
    mean.vector.copy_(trainer.average)
    save_tensors(
        path, last | {f"average.{name}": view for name, view in mean.views.items()}, trainer.config, trainer.step
    )


def load_weights(path: Path, kind: str = "last", config: object | None = None) -> dict[str, Tensor]:
    """Return the parameters of a finished model by the names of `Retriever`; kind is 'last' or 'average'."""
    tensors, _ = load_tensors(path, config)
    chosen = {name.removeprefix(f"{kind}."): t for name, t in tensors.items() if name.startswith(f"{kind}.")}
    if not chosen:
        raise RecordsError(f"{path} must hold {kind!r} weights, got {sorted({n.split('.')[0] for n in tensors})}.")
    return chosen
