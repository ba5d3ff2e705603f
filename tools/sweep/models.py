"""Which class stands for a model type, and a tiny model of it with weights large enough for attention to matter."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import transformers
from torch import Generator, nn
from transformers import PreTrainedConfig
from transformers.models.auto import configuration_auto, modeling_auto

from sweep.configs import tiny_config

LARGEST = 40_000_000
"""Parameters of a model that is still tried."""

SPREAD = 1.7
"""Standard deviation of what a layer makes of inputs of size one: logits differ by several units, weights with them."""

TASKS = (
    "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "TEXT_TO_WAVEFORM",
    "TEXT_TO_SPECTROGRAM", "MASKED_LM", "CAUSAL_LM", "CTC", "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "ZERO_SHOT_OBJECT_DETECTION", "IMAGE_CLASSIFICATION", "VIDEO_CLASSIFICATION", "AUDIO_CLASSIFICATION",
    "OBJECT_DETECTION", "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "MASK_GENERATION",
    "TIME_SERIES_PREDICTION",
)  # fmt: skip
"""Of several classes for one type the first in this order is taken: whole models before their parts."""


def model_types() -> list[str]:
    """Every model type that transformers has a model class for."""
    return [name for name in configuration_auto.CONFIG_MAPPING_NAMES if class_names(name)]


def class_names(model_type: str) -> list[str]:
    """The classes that stand for a type, the best first; the bare model comes last."""
    tables = [getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES", {}) for task in TASKS]
    tables += [modeling_auto.MODEL_FOR_PRETRAINING_MAPPING_NAMES, modeling_auto.MODEL_MAPPING_NAMES]
    found = [table[model_type] for table in tables if model_type in table]
    flat = [name for entry in found for name in ([entry] if isinstance(entry, str) else entry)]
    return list(dict.fromkeys(flat))


def tiny_model(model_type: str, rung: str = "narrow", seed: int = 0) -> nn.Module:
    """A tiny random model; the same weights for the same seed."""
    return build(class_names(model_type)[0], tiny_config(model_type, rung), seed)


def build(name: str, config: PreTrainedConfig, seed: int = 0) -> nn.Module:
    """A model of a class, unless it is too large."""
    kind = getattr(transformers, name)
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind(config).parameters())
    if count > LARGEST:
        raise MemoryError(f"{count / 1e6:.0f} million parameters")
    torch.manual_seed(seed)
    model: nn.Module = kind(config).eval()
    _enlarge(model, torch.Generator().manual_seed(seed))
    return model


@torch.no_grad()
def _enlarge(model: nn.Module, generator: Generator) -> None:
    for name, parameter in _large(model):
        parameter.normal_(generator=generator).mul_(
            SPREAD * parameter[0].numel() ** -0.5 if "embed" not in name else 1.0
        )


def _large(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1 and parameter.is_floating_point():
            yield name, parameter
