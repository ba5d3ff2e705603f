"""Which model this is: its architecture, its heads, and a fingerprint of its weights.

The fingerprint is a SHA-256 over the names, shapes and 512 evenly spaced elements of every parameter, rounded to
bfloat16, so that a model opened in bfloat16 is the model that was measured in float32. It tells models and
fine-tunes apart; it is no protection against someone who wants to deceive. The digest is over every element: results
that are kept under it are never those of a model that has changed.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import nn

from strop._checks import require
from strop.patching.layout import count_heads
from strop.patching.placement import device_of, read_weights
from strop.patching.sites import find_sites

SAMPLES = 512


def architecture_of(model: nn.Module) -> str:
    """Return the name of the model's class, without its head."""
    config: Any = getattr(model, "config", None)
    return str(getattr(config, "model_type", type(model).__name__))


def heads_of(model: nn.Module) -> dict[str, int]:
    """Return attention module → number of query heads, in the model's order."""
    config: Any = getattr(model, "config", None)
    shared = getattr(config.get_text_config(), "num_attention_heads", None) if config is not None else None
    found = {name: count_heads(module, shared) for name, module in find_sites(model).all.items()}
    unknown = [name for name, heads in found.items() if heads is None]
    require(not unknown, "every attention module must say its number of heads", f"none in {unknown[:3]}")
    return {name: int(heads) for name, heads in found.items() if heads is not None}


def fingerprint(model: nn.Module) -> str:
    """Return 16 hexadecimal digits that change with any change of the model's weights worth the name."""
    digest = hashlib.sha256()
    for name, parameter in read_weights(model):
        flat = parameter.flatten()
        index = torch.linspace(0, max(0, len(flat) - 1), min(SAMPLES, len(flat)), dtype=torch.float64).long()
        digest.update(f"{name} {tuple(parameter.shape)} ".encode())
        digest.update(flat[index.to(flat.device)].cpu().to(torch.bfloat16).view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:16]


def digest_weights(model: nn.Module) -> str:
    """Return 16 hexadecimal digits of a SHA-256 over every element of every parameter: another for any change."""
    digest = hashlib.sha256()
    for name, parameter in read_weights(model):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype} ".encode())
        digest.update(parameter.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def dtype_of(model: nn.Module) -> str:
    """Return the dtype of a model's weights by torch's name and, unless that is the CPU, where it computes."""
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    kinds = sorted({device_of(module).type for module in find_sites(model).all.values()})
    return dtype if kinds == ["cpu"] else f"{dtype} on {' and '.join(kinds)}"
