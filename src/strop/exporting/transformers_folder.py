"""A model folder with the edge folded into plain weights: any engine that reads such folders runs it, without strop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from strop.edges.bake import baked
from strop.exporting.job import Job
from strop.exporting.new_files import new_folder
from strop.exporting.plan import Plan, describe_edge
from strop.patching.identity import dtype_of

if TYPE_CHECKING:
    from torch import nn


NOTE = "strop_edge.json"
"""What says which edge is in a folder."""


def plan_folder(job: Job) -> Plan:
    """Return the plan of a model folder with the edge in its weights."""
    own = dtype_of(job.model)
    dtype = job.dtype or own
    held = "the patched model's logits, by plain weights"

    def put(path: Path) -> None:
        with new_folder(path) as folder, baked(job.edge, job.model) as model:
            with _in_dtype(model, dtype):
                save_model(model, job.opened.tokenizer, folder)
            (folder / NOTE).write_text(json.dumps(describe_edge(job.edge), indent=1))

    rounded = (f"every weight is rounded from {own} to {dtype}",) if dtype != own else ()
    return Plan("transformers", job.out, (f"{held} of {len(job.places)} layers",), rounded, (), put)


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model and its tokeniser as transformers reads them."""
    from strop.pretrained.convert import silence_transformers

    with silence_transformers():
        model.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)


@contextmanager
def _in_dtype(model: nn.Module, dtype: str) -> Iterator[None]:
    """Let a model's weights be of another dtype for the length of the block."""
    before = {name: value.data for name, value in (*model.named_parameters(), *model.named_buffers())}
    config: Any = model.config
    said = config.dtype
    model.to(getattr(torch, dtype))
    config.dtype = getattr(torch, dtype)
    try:
        yield
    finally:
        for name, value in (*model.named_parameters(), *model.named_buffers()):
            value.data = before[name]
        config.dtype = said
