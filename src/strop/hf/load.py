"""Open a model and its tokeniser from a source, for measuring: no gradients, and no network for a folder."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from strop.hf.convert import quiet_transformers
from strop.hf.sources import Source, SourceError


def load(
    source: Source, dtype: str = "float32", trust_remote_code: bool = False, head: bool = False
) -> tuple[nn.Module, Any]:
    """Return (model in eval mode, tokeniser). `head` keeps the language-model head, for generating."""
    import transformers

    kind = transformers.AutoModelForCausalLM if head else transformers.AutoModel
    place: Any = {"local_files_only": source.local, "trust_remote_code": trust_remote_code}
    with quiet_transformers():
        try:
            model = kind.from_pretrained(source.place, dtype=getattr(torch, dtype), **place)
            tokeniser = transformers.AutoTokenizer.from_pretrained(source.place, **place)
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorErrors) as error:
            raise SourceError(
                f"{source.name} must be a model that transformers can open, got: {_first_line(error)}"
            ) from error
    return model.eval().requires_grad_(False), tokeniser


def longest(model: nn.Module) -> int | None:
    """Return the largest number of positions the model was built for, or None where nothing says."""
    config: Any = model.config
    text = config.get_text_config()
    found = [getattr(text, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
    return next((int(limit) for limit in found if limit), None)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _safetensors_error() -> type[Exception]:
    from safetensors import SafetensorError

    return SafetensorError


SafetensorErrors = _safetensors_error()
