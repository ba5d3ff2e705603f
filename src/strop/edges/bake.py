"""Fold an edge into the weights, so that the sharpened model runs in any engine at exactly no cost.

    β_h·(q·k) = (β_h·q)·k     a constant per head scales that head's rows of the query projection (and its bias)
    W_q + up·down             a low-rank edit of the query is added to the query projection
    W_o·(s_h·o_h)             an output scale per head scales that head's columns of the output projection

place.py says where that is in each family. Impossible, and refused with the reason: a β that depends on n or on the
entropy; logits that are soft-capped or carry a bias of positions (β multiplies after those, the query before); heads
that differ under a query norm that they share.
After folding, the model is run beside the patched one on random tokens; if they differ, everything is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.edges.place import Placement, place_edge
from strop.errors import BakeError
from strop.patching.layout import is_transposed, offset_of
from strop.patching.placement import device_of

if TYPE_CHECKING:
    from strop.edges.edge import Edge

TOLERANCE = 1e-3
"""Largest difference of logits, relative to their largest, that still counts as rounding, in float32."""


@torch.no_grad()
def bake_edge(edge: Edge, model: nn.Module) -> nn.Module:
    """Fold `edge` into `model` in place and return it."""
    places = place_edge(edge, model)
    away = any(parameter.is_meta for parameter in model.parameters())
    rule, remedy = "the model's weights must be in memory for baking", "Open it without offloading"
    require(not away, rule, "weights that are kept elsewhere between calls", remedy, BakeError)
    ids = _tokens(model)
    with edge.put_on(model):
        wanted = _logits(model, ids)
    put_back = _remember([model.get_submodule(name) for name in places])
    try:
        for place in places.values():
            apply_placement(place)
        _compare(_logits(model, ids), wanted)
    except BaseException:
        put_back()
        raise
    return model


@contextmanager
def baked(edge: Edge, model: nn.Module) -> Iterator[nn.Module]:
    """Fold an edge into a model for the length of the block."""
    put_back = _remember([model.get_submodule(name) for name in place_edge(edge, model)])
    bake_edge(edge, model)
    try:
        yield model
    finally:
        put_back()


@torch.no_grad()
def apply_placement(place: Placement) -> None:
    """Change the weights of one attention module, in place."""
    if place.low_rank is not None:
        place.query.add(place.low_rank[0] @ place.low_rank[1])
    if place.rows is not None:
        place.query.scale(place.rows.view(place.layout.heads, -1))
    if place.norm is not None:
        _scale_norm(place.layout.query_norm, place.norm)
    if place.columns is not None:
        each = place.columns.to(place.output.weight)
        place.output.weight.mul_(each[:, None] if is_transposed(place.output) else each)


def _scale_norm(norm: Any, factors: Tensor) -> None:
    """Scale what a norm gives by factors of the shape of its weight."""
    each, offset = factors.to(norm.weight), offset_of(norm)
    norm.weight.copy_((norm.weight + offset) * each - offset)
    if getattr(norm, "bias", None) is not None:
        norm.bias.mul_(each)


def _remember(modules: Sequence[nn.Module]) -> Callable[[], None]:
    """Return what puts the weights of modules back as they are now."""
    before = [{key: value.clone() for key, value in module.state_dict().items()} for module in modules]

    def put_back() -> None:
        for module, state in zip(modules, before, strict=True):
            module.load_state_dict(state)

    return put_back


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
