"""Models whose weights accelerate keeps elsewhere between calls: in memory, or on a disk beside layers in memory."""

from __future__ import annotations

from pathlib import Path

import accelerate
import tiny
import torch
from torch import nn

ON_DISK = {"model.layers.1": "disk", "lm_head": "disk"}
IN_MEMORY = {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu"}


def model(way: str, folder: Path) -> nn.Module:
    """The tiny model, as it is ("whole") or offloaded."""
    made = tiny.model()
    if way == "memory":
        return accelerate.cpu_offload(made, torch.device("cpu"))
    if way == "disk":
        return accelerate.dispatch_model(made, IN_MEMORY | ON_DISK, torch.device("cpu"), offload_dir=folder)
    return made


WAYS = ("memory", "disk")
