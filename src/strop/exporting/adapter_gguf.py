"""A LoRA adapter in GGUF, for llama.cpp's --lora: the changes of lora.py by the names and rows of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import gguf
import torch

from strop._checks import require
from strop.errors import BakeError
from strop.exporting.gguf_layers import find_layers
from strop.exporting.job import Job
from strop.exporting.lora import LowRank, LowRanks, find_changes
from strop.exporting.lora_folder import tell_dropped
from strop.exporting.new_files import new_file
from strop.exporting.plan import Plan, describe_edge


def plan_gguf_lora(job: Job) -> Plan:
    """Return the plan of a GGUF adapter."""
    changes = find_changes(job)
    found = _rename(job, changes)
    biased = any(change.bias is not None for change in changes.queries.values())
    normed = any(place.norm is not None for place in job.places.values())
    rule, actual = "the edge must change matrices alone for a GGUF adapter", "norms" if normed else "biases"
    require(not biased and not normed, rule, f"{actual} of the query", "Use --to gguf, which holds them", BakeError)
    exact = (f"{len(found)} tensors, by rank {changes.rank}; float32",)

    def put(path: Path) -> None:
        with new_file(path) as temporary:
            _write(temporary, job.gguf.architecture, found, describe_edge(job.edge))

    return Plan("gguf-lora", job.out, exact, (), tuple(tell_dropped(job, changes)), put)


def _rename(job: Job, changes: LowRanks) -> dict[str, LowRank]:
    """LowRanks by the names of the file's tensors, rows in the file's order."""
    layers, found = find_layers(job.gguf, job.places), {}
    for module, place in job.places.items():
        layer, query, output = layers[module], job.layers[place.query.layer], job.layers[place.output]
        if query in changes.queries:
            up = torch.zeros(int(job.gguf.tensors[layer.query].shape[-1]), len(changes.queries[query].down))
            up[: len(layer.order)] = changes.queries[query].up[place.query.rows][layer.order]
            found[layer.query] = LowRank(up, changes.queries[query].down)
        if output in changes.outputs:
            found[layer.output] = changes.outputs[output]
    return found


def _write(path: Path, architecture: str, found: Mapping[str, LowRank], keys: Mapping[str, str]) -> None:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 0.0)  # 0: whatever the rank, nothing but the caller's own scale
    for key, value in keys.items():
        writer.add_string(key, value)
    for name, change in found.items():
        writer.add_tensor(f"{name}.lora_a", change.down.cpu().contiguous().numpy())
        writer.add_tensor(f"{name}.lora_b", change.up.cpu().contiguous().numpy())
    with closing(writer):  # also where the disk is full
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
