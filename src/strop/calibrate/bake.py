"""Fold an edge into the weights, so that the sharpened model runs in any engine at exactly no cost.

    β_h·(q·k) = (β_h·q)·k     a constant per head scales that head's rows of the query projection (and its bias)
    W_o·(s_h·o_h)             an output scale per head scales that head's columns of the output projection

Impossible, and refused with the reason: a β that depends on n or on the entropy; logits that are soft-capped or carry a
bias of positions (β multiplies after those, the query before); a query norm shared by all heads of a layer, which would
undo any scale of the projection before it. The last is possible where a layer's heads have one β: its norm takes it.
After folding, the model is run beside the patched one on random tokens; if they differ, everything is put back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.calibrate.outputs import output_projection
from strop.records import StropError

if TYPE_CHECKING:
    from strop.calibrate.edge import Edge

TOLERANCE = 1e-3
"""Largest difference of logits, relative to their largest, that still counts as rounding, in float32."""


class BakeError(StropError):
    """An edge that cannot be folded into this model, and why."""


@torch.no_grad()
def bake(edge: Edge, model: nn.Module) -> nn.Module:
    """Fold `edge` into `model` in place and return it."""
    _refuse_form(edge)
    edge.check(model)
    _refuse_config(model)
    modules = dict(model.named_modules())
    ids = _tokens(model)
    with edge.applied(model):
        wanted = _logits(model, ids)
    touched = [modules[name] for name in edge.numbers]
    before = [{key: value.clone() for key, value in module.state_dict().items()} for module in touched]
    try:
        for name, normaliser in edge.normalisers().items():
            _fold_query(modules[name], normaliser.at(1, 0.0), name)
        for name, scales in edge.outputs.items():
            _fold_output(modules[name], 1.0 + scales, name)
        _compare(_logits(model, ids), wanted)
    except BaseException:
        for module, state in zip(touched, before, strict=True):
            module.load_state_dict(state)
        raise
    return model


def _refuse_form(edge: Edge) -> None:
    rule = "the edge's form must not depend on the input for baking"
    remedy = "Keep the edge as a file and use strop.sharpened, or calibrate with the form constant"
    require(edge.bakeable, rule, repr(edge.form), remedy, BakeError)


def _refuse_config(model: nn.Module) -> None:
    config: Any = getattr(model, "config", None)
    capped = getattr(config, "attn_logit_softcapping", None)
    rule = "the model's logits must be linear in the query for baking"
    require(not capped, rule, f"a soft cap at {capped}", "Use strop.sharpened instead", BakeError)


def _fold_query(module: nn.Module, betas: Tensor, name: str) -> None:
    if bool((betas == 1).all()):
        return
    projection = getattr(module, "q_proj", None)
    rule = f"{name} must keep its query weights in a linear layer q_proj for baking"
    require(isinstance(projection, nn.Linear), rule, type(module).__name__, "Use strop.sharpened instead", BakeError)
    assert isinstance(projection, nn.Linear)
    norm = next((getattr(module, key) for key in ("q_norm", "q_layernorm") if hasattr(module, key)), None)
    weight = getattr(norm, "weight", None)
    if weight is None or len(weight) == projection.out_features:
        _scale_rows(projection if weight is None else norm, betas)
        return
    rule = f"{name} must have one β for all its heads for baking, since its query norm is shared by them"
    same = bool(torch.isclose(betas, betas[0], rtol=1e-6).all())
    actual = f"β from {float(betas.min()):.3g} to {float(betas.max()):.3g}"
    require(same, rule, actual, "Use strop.sharpened instead", BakeError)
    about_one = float("Gemma" in type(norm).__name__)  # Gemma's norms multiply by 1 + weight
    weight.copy_((weight + about_one) * betas[0] - about_one)


def _scale_rows(layer: Any, betas: Tensor) -> None:
    each = betas.repeat_interleave(len(layer.weight) // len(betas)).to(layer.weight)
    layer.weight.mul_(each.view(-1, *[1] * (layer.weight.dim() - 1)))
    if getattr(layer, "bias", None) is not None:
        layer.bias.mul_(each)


def _fold_output(module: nn.Module, scales: Tensor, name: str) -> None:
    projection = output_projection(module)
    rule = f"{name} must end in a linear layer for baking"
    require(
        isinstance(projection, nn.Linear), rule, type(projection).__name__, "Use strop.sharpened instead", BakeError
    )
    assert isinstance(projection, nn.Linear)
    projection.weight.mul_(scales.repeat_interleave(projection.in_features // len(scales)).to(projection.weight))


def _tokens(model: nn.Module) -> Tensor:
    config: Any = model.config
    size = config.get_text_config().vocab_size
    return torch.randint(size, (1, 24), generator=torch.Generator().manual_seed(0))


def _logits(model: nn.Module, ids: Tensor) -> Tensor:
    out: Any = model(input_ids=ids.to(next(model.parameters()).device), use_cache=False)
    found: Tensor = out.logits if hasattr(out, "logits") else out[0]
    return found.float()


def _compare(found: Tensor, wanted: Tensor) -> None:
    worst = float((found - wanted).abs().max() / wanted.abs().max())
    rule = "the baked model must give the patched model's logits"
    remedy = "This architecture uses its query in a way that is not known here; its weights are as before"
    require(worst < TOLERANCE, rule, f"a difference of {worst:.1e} of the largest", remedy, BakeError)
