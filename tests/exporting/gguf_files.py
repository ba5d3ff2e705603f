"""Tiny GGUF files as converters write them, and back: what llama.cpp's converter does to each family's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import nn

from strop.exporting.gguf_blocks import read_numbers
from strop.pretrained.gguf_head import Array, Kind

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma3": gguf.MODEL_ARCH.GEMMA3,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "gpt2": gguf.MODEL_ARCH.GPT2,
    "gpt_neox": gguf.MODEL_ARCH.GPTNEOX,
    "starcoder2": gguf.MODEL_ARCH.STARCODER2,
    "olmo2": gguf.MODEL_ARCH.OLMO2,
}


def write(path: Path, model: Any, kind: Kind = Kind.F32, **keys: int) -> Path:
    """Write a model as its converter would; attention matrices in `kind`."""
    family = model.config.model_type.removesuffix("_text")
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[ARCHITECTURES[family]])
    for key, value in keys.items():
        writer.add_uint16(key.replace("_", "."), value)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "ü"])
    for own, name in names(model).items():
        numbers = to_file(family, name, model.get_parameter(own).detach().float().numpy(), model.config)
        stored = kind if "attn" in name and numbers.ndim == 2 else Kind.F32
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(numbers), stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@torch.no_grad()
def read_into(path: Path, model: Any) -> nn.Module:
    """Put a file's numbers into a model."""
    family = model.config.model_type.removesuffix("_text")
    found = {tensor.name: read_numbers(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(path).tensors}
    for own, name in names(model).items():
        numbers = from_file(family, name, found[name], model.config)
        model.get_parameter(own).copy_(torch.from_numpy(np.array(numbers)))
    return model  # type: ignore[no-any-return]


def names(model: Any) -> dict[str, str]:
    """Parameter → its name in a file."""
    family = model.config.model_type.removesuffix("_text")
    known = gguf.get_tensor_name_map(ARCHITECTURES[family], model.config.num_hidden_layers)
    found = {own: known.get_name(own, (".weight", ".bias")) for own, _ in model.named_parameters()}
    return {own: name for own, name in found.items() if name is not None}


def to_file(family: str, name: str, numbers: Array, config: Any) -> Array:
    if family == "llama" and (".attn_q." in name or ".attn_k." in name):
        heads = config.num_attention_heads if ".attn_q." in name else config.num_key_value_heads
        return numbers.reshape(heads, 2, -1, *numbers.shape[1:]).swapaxes(1, 2).reshape(numbers.shape)
    if family == "gemma3" and "norm" in name:
        return numbers + 1
    if family == "gpt2" and numbers.ndim == 2 and ("attn" in name or "ffn" in name):
        return numbers.T
    if family == "gpt_neox" and "attn_qkv" in name:
        heads = config.num_attention_heads
        return numbers.reshape(heads, 3, -1, *numbers.shape[1:]).swapaxes(0, 1).reshape(numbers.shape)
    return numbers


def from_file(family: str, name: str, numbers: Array, config: Any) -> Array:
    if family == "llama" and (".attn_q." in name or ".attn_k." in name):
        heads = config.num_attention_heads if ".attn_q." in name else config.num_key_value_heads
        return numbers.reshape(heads, -1, 2, *numbers.shape[1:]).swapaxes(1, 2).reshape(numbers.shape)
    if family == "gemma3" and "norm" in name:
        return numbers - 1
    if family == "gpt2" and numbers.ndim == 2 and ("attn" in name or "ffn" in name):
        return numbers.T
    if family == "gpt_neox" and "attn_qkv" in name:
        heads = config.num_attention_heads
        return numbers.reshape(3, heads, -1, *numbers.shape[1:]).swapaxes(0, 1).reshape(numbers.shape)
    return numbers
