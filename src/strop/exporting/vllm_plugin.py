"""A vLLM plugin for edges that do not bake. Not run here: tested against a stand-in of the function that it wraps.

vLLM's transformers backend (`vllm serve FOLDER --model-impl transformers`) registers its attention under the name
"vllm". vLLM calls `sharpen_vllm` when it starts (entry point vllm.general_plugins). From then on, in a model whose
folder or hub repository holds edge.safetensors, queries are multiplied by β(head, keys up to here) and outputs by their
scales. Models without such a file run as before. `strop export --to vllm` writes such a folder.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from torch import Tensor

from strop._checks import require
from strop.edges.edge import Edge
from strop.edges.output_scales import OutputScales
from strop.edges.temperatures import TemperaturePart
from strop.errors import EdgeFileError
from strop.exporting.vllm_folder import check_form
from strop.sharpness import RowStats

Attention = Callable[..., tuple[Tensor, Any]]
Layer = tuple[int, TemperaturePart, Tensor | None]  # its heads, their β, and factors of their outputs

BACKEND, NAME = "vllm.model_executor.models.transformers", "vllm"


def sharpen_vllm() -> None:
    """Wrap the attention of vLLM's transformers backend."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    importlib.import_module(BACKEND)  # which registers its function
    inner = ALL_ATTENTION_FUNCTIONS[NAME]
    if not hasattr(inner, "strop_edges"):  # vLLM may call a plugin more than once in a process
        ALL_ATTENTION_FUNCTIONS[NAME] = wrap_attention(inner)


def wrap_attention(inner: Attention) -> Attention:
    """Return an attention function that does what `inner` does with sharpened queries."""
    edges: dict[str, list[Layer]] = {}

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **given: Any) -> tuple[Tensor, Any]:
        place = str(module.config.name_or_path)
        if place not in edges:
            edges[place] = _find(place)
        if not edges[place]:
            return inner(module, query, key, value, mask, **given)
        heads, rule, scales = edges[place][module.layer_idx]
        require(query.shape[1] == heads, "tensor_parallel_size must be 1", f"{query.shape[1]} heads in a part")
        betas = _betas(rule, given["position_ids"], getattr(module, "sliding_window", None))
        out, weights = inner(module, query * betas.to(query), key, value, mask, **given)
        if scales is not None:
            out = (out.unflatten(-1, (heads, -1)) * scales[:, None].to(out)).flatten(-2)
        return out, weights

    vars(attend)["strop_edges"] = edges
    return attend


def _find(place: str) -> list[Layer]:
    try:
        edge = Edge.from_pretrained(place)
    except EdgeFileError:
        return []
    check_form(edge)
    rules = edge.temperatures
    folds = {name: part.fold() for name, part in edge.parts.get(OutputScales.term, {}).items()}
    return [(n, rules[name], getattr(folds.get(name), "outputs", None)) for name, n in edge.heads_of.items()]


def _betas(rule: TemperaturePart, positions: Tensor, window: int | None) -> Tensor:
    """β of every head and position, [heads, n, 1]."""
    keys = positions.reshape(1, -1) + 1
    keys = keys if window is None else keys.clamp(max=window)
    nothing = keys * 0.0
    return rule.to(keys.device).inverse_temperature(RowStats(keys, nothing, nothing, nothing, nothing))[..., None]
