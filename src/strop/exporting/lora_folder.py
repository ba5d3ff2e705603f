"""A LoRA adapter that PEFT and vLLM load: the changes of lora.py, all of one rank."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from strop.exporting.adapter_folder import scale_norms, write_adapter
from strop.exporting.job import Job
from strop.exporting.lora import LowRank, LowRanks, find_changes
from strop.exporting.plan import Plan

VLLM_RANK = 512
"""The largest rank that vLLM serves."""


def plan_lora(job: Job) -> Plan:
    """Return the plan of a LoRA adapter."""
    changes, norms = find_changes(job), scale_norms(job)
    layers, rank = changes.queries | changes.outputs or _change_nothing(job), max(changes.rank, 1)
    biased = any(change.bias is not None for change in layers.values())
    bias = "lora_only" if biased else "none"
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "bias": bias, "target_modules": sorted(layers)}
    tensors = {key: value for name, one in layers.items() for key, value in _tensors(job, name, one, rank).items()}
    exact = [f"{len(changes.queries)} query and {len(changes.outputs)} output projections, by rank {rank}"]
    lost = [*tell_dropped(job, changes), *_tell_vllm(rank, biased, bool(norms))]
    exact += [f"{len(norms)} weights of query norms, kept whole"] if norms else []
    return Plan(
        "lora", job.out, tuple(exact), (), tuple(lost), lambda path: write_adapter(job, path, config, tensors, norms)
    )


def tell_dropped(job: Job, changes: LowRanks) -> list[str]:
    """Say which heads a limit of rank left out."""
    layers = {module: number for number, module in enumerate(job.places)}
    heads: dict[str, list[str]] = {}
    for module, part, head in changes.dropped:
        heads.setdefault(part, []).append(f"L{layers[module]} H{head}")
    return [
        f"for the limit of rank, the {part} of {len(found)} heads, which change least: {', '.join(found)}"
        for part, found in heads.items()
    ]


def _tell_vllm(rank: int, biased: bool, normed: bool) -> list[str]:
    ranks = f"ranks over {VLLM_RANK} (--max-rank {VLLM_RANK} keeps to it)"
    reasons = [ranks] * (rank > VLLM_RANK) + ["biases"] * biased + ["norms"] * normed
    return [f"in vLLM: it takes no adapter with {' or '.join(reasons)}; PEFT does"] if reasons else []


def _change_nothing(job: Job) -> dict[str, LowRank]:
    """A change by zero: PEFT wants a layer to adapt even where norms alone are changed."""
    first = next(iter(job.places.values())).output
    return {job.layers[first]: LowRank(torch.zeros(first.weight.shape[0], 0), torch.zeros(0, first.weight.shape[1]))}


def _tensors(job: Job, name: str, change: LowRank, rank: int) -> dict[str, Tensor]:
    """PEFT's tensors of one layer, filled up with zeros to the rank that all layers have; a bias stands for its own."""
    more = rank - len(change.down)
    found = {
        f"{name}.lora_A.weight": functional.pad(change.down, (0, 0, 0, more)),
        f"{name}.lora_B.weight": functional.pad(change.up, (0, more)),
    }
    if change.bias is not None:
        found[f"{name}.base_layer.bias"] = job.model.get_parameter(f"{name}.bias") + change.bias
    return found
