"""A folder that PEFT reads: adapter_config.json and adapter_model.safetensors, by the names of the model's layers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from strop.exporting.job import Job
from strop.exporting.new_files import new_folder
from strop.exporting.plan import describe_edge
from strop.exporting.transformers_folder import NOTE
from strop.patching.layout import is_transposed, offset_of


def write_adapter(
    job: Job, path: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor], norms: Mapping[str, Tensor]
) -> None:
    """Write an adapter of `tensors` by the names of PEFT's layers, with `norms` that stand in for the model's own."""
    from safetensors.torch import save_file

    common = {
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": job.opened.name,
        "inference_mode": True,
        "fan_in_fan_out": any(is_transposed(module) for module in job.model.modules()),
        "modules_to_save": sorted({name.rpartition(".")[0] for name in norms}) or None,
    }
    parts = {name: value.detach().contiguous().float() for name, value in {**tensors, **norms}.items()}
    with new_folder(path) as folder:
        (folder / "adapter_config.json").write_text(json.dumps(common | dict(config), indent=1))
        save_file(
            {f"base_model.model.{name}": value for name, value in parts.items()}, folder / "adapter_model.safetensors"
        )
        (folder / NOTE).write_text(json.dumps(describe_edge(job.edge), indent=1))


@torch.no_grad()
def scale_norms(job: Job) -> dict[str, Tensor]:
    """Return the query norms that an edge changes, as they are with it: adapters hold them whole."""
    found = {}
    for place in job.places.values():
        norm: Any = place.layout.query_norm
        if place.norm is not None:
            name, each, offset = job.layers[norm], place.norm.to(norm.weight), offset_of(norm)
            found[f"{name}.weight"] = (norm.weight + offset) * each - offset
            if getattr(norm, "bias", None) is not None:
                found[f"{name}.bias"] = norm.bias * each
    return found
