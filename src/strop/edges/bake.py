"""Fold an edge into the weights, so that the sharpened model runs in any engine at exactly no cost.

    β_h·(q·k) = (β_h·q)·k     a constant per head scales that head's rows of the query projection (and its bias)
    W_q + up·down             a low-rank edit of the query is added to the query projection
    W_o·(s_h·o_h)             an output scale per head scales that head's columns of the output projection

Where a head's weights lie is known from its family's layout (patching/layout.py), fused projections included.
Impossible, and refused with the reason: a β that depends on n or on the entropy; logits that are soft-capped or carry a
bias of positions (β multiplies after those, the query before); a query norm shared by all heads of a layer, which would
undo any scale of the projection before it. The last is possible where a layer's heads have one β, or one for each pair
of dimensions: its norm takes them.
After folding, the model is run beside the patched one on random tokens; if they differ, everything is put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.edges.fold import Fold, folds_of
from strop.errors import BakeError
from strop.patching.layout import AttentionLayout, find_layout, find_output
from strop.patching.placement import device_of

if TYPE_CHECKING:
    from strop.edges.edge import Edge

TOLERANCE = 1e-3
"""Largest difference of logits, relative to their largest, that still counts as rounding, in float32."""


@torch.no_grad()
def bake_edge(edge: Edge, model: nn.Module) -> nn.Module:
    """Fold `edge` into `model` in place and return it."""
    folds = folds_of(edge)
    edge.check(model)
    _refuse_config(model, folds)
    away = any(parameter.is_meta for parameter in model.parameters())
    rule, remedy = "the model's weights must be in memory for baking", "Open it without offloading"
    require(not away, rule, "weights that are kept elsewhere between calls", remedy, BakeError)
    modules = dict(model.named_modules())
    ids = _tokens(model)
    with edge.put_on(model):
        wanted = _logits(model, ids)
    touched = [modules[name] for name in folds]
    before = [{key: value.clone() for key, value in module.state_dict().items()} for module in touched]
    try:
        for name, fold in folds.items():
            _fold_module(modules[name], edge.heads_of[name], fold, name)
        _compare(_logits(model, ids), wanted)
    except BaseException:
        for module, state in zip(touched, before, strict=True):
            module.load_state_dict(state)
        raise
    return model


def _refuse_config(model: nn.Module, folds: Mapping[str, Fold]) -> None:
    config: Any = getattr(model, "config", None)
    capped = getattr(config, "attn_logit_softcapping", None)
    rule = "the model's logits must be linear in the query for baking"
    scaled = any(fold.query is not None for fold in folds.values())
    require(not (capped and scaled), rule, f"a soft cap at {capped}", "Use strop.sharpened instead", BakeError)


def _fold_module(module: nn.Module, heads: int, fold: Fold, name: str) -> None:
    layout = find_layout(module, heads)
    if fold.query is not None:
        _fold_query(layout, fold.query.expand(heads, -1), name)
    if fold.norm is not None:
        _scale_norm(layout.query_norm, fold.norm)
    if fold.low_rank is not None:
        assert layout.query is not None
        layout.query.add(fold.low_rank[0] @ fold.low_rank[1])
    if fold.outputs is not None:
        _fold_output(module, fold.outputs, name)


def _fold_query(layout: AttentionLayout, factors: Tensor, name: str) -> None:
    """Scale each head's rows of the query projection or, where a norm follows, of the norm."""
    if bool((factors == 1).all()):
        return
    rule = f"{name} must keep its query weights where they are known for baking"
    known = layout.query is not None
    require(known, rule, "a layout of no known family", "Use strop.sharpened instead", BakeError)
    assert layout.query is not None
    size = len(layout.query.rows) // len(factors)
    if layout.query_weight is None:
        layout.query.scale(factors)
    elif layout.query_weight.numel() == len(layout.query.rows):
        _scale_norm(layout.query_norm, factors.expand(-1, size).flatten())
    else:
        _refuse_differences(factors, name)
        _scale_norm(layout.query_norm, factors[0].expand(size))


def _refuse_differences(factors: Tensor, name: str) -> None:
    rule = f"{name} must have one β for all its heads for baking, since its query norm is shared by them"
    same = bool(torch.isclose(factors, factors[:1], rtol=1e-6).all())
    actual = f"β from {float(factors.min()):.3g} to {float(factors.max()):.3g}"
    require(same, rule, actual, "Use strop.sharpened instead, or calibrate with the form layer or pairs", BakeError)


def _scale_norm(norm: Any, factors: Tensor) -> None:
    """Scale what a norm gives by factors of the shape of its weight, or flat."""
    about_one = float("Gemma" in type(norm).__name__)  # Gemma's norms multiply by 1 + weight
    each = factors.view(norm.weight.shape).to(norm.weight)
    norm.weight.copy_((norm.weight + about_one) * each - about_one)
    if getattr(norm, "bias", None) is not None:
        norm.bias.mul_(each)


def _fold_output(module: nn.Module, scales: Tensor, name: str) -> None:
    """Scale each head's columns of the output projection; GPT-2 keeps its weight transposed."""
    projection: Any = find_output(module)
    rule = f"{name} must end in a linear layer for baking"
    linear, transposed = isinstance(projection, nn.Linear), type(projection).__name__ == "Conv1D"
    require(linear or transposed, rule, type(projection).__name__, "Use strop.sharpened instead", BakeError)
    width = projection.weight.shape[0 if transposed else 1]
    each = scales.repeat_interleave(width // len(scales)).to(projection.weight)
    projection.weight.mul_(each[:, None] if transposed else each)


def _tokens(model: nn.Module) -> Tensor:
    config: Any = model.config
    size = config.get_text_config().vocab_size
    return torch.randint(size, (1, 24), generator=torch.Generator().manual_seed(0))


def _logits(model: nn.Module, ids: Tensor) -> Tensor:
    out: Any = model(input_ids=ids.to(device_of(model)), use_cache=False)
    found: Tensor = out.logits if hasattr(out, "logits") else out[0]
    return found.float()


def _compare(found: Tensor, wanted: Tensor) -> None:
    worst = float((found - wanted).abs().max() / wanted.abs().max())
    rule = "the baked model must give the patched model's logits"
    remedy = "This architecture uses its query in a way that is not known here; its weights are as before"
    require(worst < TOLERANCE, rule, f"a difference of {worst:.1e} of the largest", remedy, BakeError)
