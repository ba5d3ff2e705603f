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
from strop.edges.forms import QUERY_EDITS
from strop.edges.output_scales import OutputScales
from strop.edges.temperatures import TemperaturePart
from strop.errors import EdgeFileError, UnsupportedError
from strop.sharpness import RowStats

Attention = Callable[..., tuple[Tensor, Any]]

BACKEND = "vllm.model_executor.models.transformers"
NAME = "vllm"


def sharpen_vllm() -> None:
    """Wrap the attention of vLLM's transformers backend."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    importlib.import_module(BACKEND)  # which registers its function
    inner = ALL_ATTENTION_FUNCTIONS[NAME]
    if not hasattr(inner, "strop_edges"):  # vLLM may call a plugin more than once in a process
        ALL_ATTENTION_FUNCTIONS[NAME] = wrap_attention(inner)


def wrap_attention(inner: Attention) -> Attention:
    """Return an attention function that does what `inner` does with sharpened queries."""
    edges: dict[str, Edge | None] = {}

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **given: Any) -> tuple[Tensor, Any]:
        place = str(module.config.name_or_path)
        if place not in edges:
            edges[place] = _find(place)
        edge = edges[place]
        if edge is None:
            return inner(module, query, key, value, mask, **given)
        name, heads = list(edge.heads_of.items())[module.layer_idx]
        require(query.shape[1] == heads, "tensor_parallel_size must be 1", f"{query.shape[1]} heads in a part")
        betas = _betas(edge.temperatures[name], given["position_ids"], getattr(module, "sliding_window", None))
        out, weights = inner(module, query * betas.to(query), key, value, mask, **given)
        for part in (part for part in edge.parts_of(name) if isinstance(part, OutputScales)):
            out = (out.unflatten(-1, (heads, -1)) * (1.0 + part.outputs)[:, None].to(out)).flatten(-2)
        return out, weights

    vars(attend)["strop_edges"] = edges
    return attend


def _find(place: str) -> Edge | None:
    try:
        edge = Edge.from_pretrained(place)
    except EdgeFileError:
        return None
    known = all(rule.uses in ("constant", "n_keys") for rule in edge.temperatures.values())
    known = known and bool(edge.temperatures) and not {*edge.parts} & {*QUERY_EDITS}
    require(known, "the edge's form must be constant, layer, log-n or hold in vLLM", edge.form, error=UnsupportedError)
    return edge


def _betas(rule: TemperaturePart, positions: Tensor, window: int | None) -> Tensor:
    """β of every head and position, [heads, n, 1]."""
    keys = positions.reshape(1, -1) + 1
    keys = keys if window is None else keys.clamp(max=window)
    nothing = keys * 0.0
    return rule.to(keys.device).inverse_temperature(RowStats(keys, nothing, nothing, nothing, nothing))[..., None]
