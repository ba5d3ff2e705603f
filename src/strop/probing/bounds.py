"""Proposition 3.1 of arXiv 2410.01104 on a trained head: how far apart its logits can be, whatever the text.

    δ ≤ 2·scale·σ_max(Q)·σ_max(K)·‖y‖·max‖x‖

Assumptions, each of which makes the bound hold for *any* input of the model:

    norm before attention   RMSNorm and LayerNorm give ‖x̂‖ ≤ √D before their gain g (and shift b), so Q becomes
                            Q·diag(g) and ‖y‖ = √D; biases and shifts are one more column of Q on a constant 1.
    rotary positions        rotate, so they change no norm and drop out (yarn and longrope scale as well: no bound).
    norms on q and k        (Qwen 3, Gemma 3) bound ‖q‖ by √d·max|g| directly, whatever Q.
    soft-capping            bounds every logit by the cap: δ ≤ 2·cap.

No bound is given for a layer whose projections or norm are not recognised, for cross-attention, or with a position
bias added to its logits.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from strop.patching.layout import AttentionLayout, Projection, find_layout
from strop.patching.observe import Measurement
from strop.patching.placement import weights_present
from strop.sharpness import spread_bound

_NORMS_BEFORE = (
    "input_layernorm",
    "ln_1",
    "attn_norm",
    "layernorm_before",
    "pre_attention_layernorm",
)
_SELF_NORM = "self_attn_layer_norm"
_SELF_NORM_BEFORE = ("Whisper", "MBart", "Pegasus", "M2M100", "BioGpt")
"""Families whose `_SELF_NORM` comes before attention; in BART it comes after, and OPT's layers say which."""


@torch.no_grad()
def bound_spread(model: nn.Module, call: Measurement) -> list[float] | None:
    """Return the bound on the spread of each head of one attention module, or None where it is not known."""
    with weights_present(model.get_submodule(call.name.rpartition(".")[0])):
        return _bound(model, call)


def _bound(model: nn.Module, call: Measurement) -> list[float] | None:
    module = model.get_submodule(call.name)
    heads = len(call.numbers["spread"])
    layout = find_layout(module, heads, call.key_heads)
    if call.biased or call.cross or _scales_positions(module) or _has_other_norms(module, layout):
        return None
    if layout.query_norm is not None and layout.key_norm is not None:
        bound = _normed_bound(module, layout.query_norm, layout.key_norm, call.scale, heads)
    else:
        bound = _projected_bound(model, layout, call)
    if bound is not None and call.softcap is not None:
        bound = [min(value, 2 * call.softcap) for value in bound]
    return bound


def _has_other_norms(module: nn.Module, layout: AttentionLayout) -> bool:
    """Whether there are norms on q and k under names that the layout does not know."""
    known = (layout.query_norm, layout.key_norm)
    return any(name[0] in "qk" and "norm" in name and part not in known for name, part in module.named_children())


def _normed_bound(
    module: nn.Module, q_norm: nn.Module, k_norm: nn.Module, scale: float, heads: int
) -> list[float] | None:
    size = getattr(module, "head_dim", None)
    if not isinstance(size, int) or not all("RMSNorm" in type(norm).__name__ for norm in (q_norm, k_norm)):
        return None
    gains = [_gain(norm, size) for norm in (q_norm, k_norm)]
    if gains[0] is None or gains[1] is None:
        return None
    return [2 * scale * size * float(gains[0].abs().max()) * float(gains[1].abs().max())] * heads


def _projected_bound(model: nn.Module, layout: AttentionLayout, call: Measurement) -> list[float] | None:
    norm = _norm_before(model, call.name)
    if layout.query is None or layout.key is None or norm is None:
        return None
    width = layout.query.weight(layout.heads).shape[-1]
    gain, shift = _gain(norm, width), getattr(norm, "bias", None)
    if gain is None:
        return None
    query, key = (
        _fold(part, heads, gain, shift)
        for part, heads in ((layout.query, layout.heads), (layout.key, layout.key_heads))
    )
    length = math.sqrt(width + 1)  # √D for the normed input, 1 for the constant that carries the biases
    grouped = key.repeat_interleave(layout.heads // layout.key_heads, 0)
    bound = spread_bound(query, grouped, length, length, call.scale)
    assert isinstance(bound, Tensor)
    values: list[float] = bound.tolist()
    return values


def _fold(part: Projection, heads: int, gain: Tensor, shift: Tensor | None) -> Tensor:
    """[W·diag(g), W·b + bias]: [heads, d, D + 1], to be applied to [x̂, 1]."""
    weight, bias = part.weight(heads).cpu().double(), part.bias(heads)
    constant = torch.zeros(weight.shape[:-1], dtype=torch.float64) if bias is None else bias.cpu().double()
    if shift is not None:
        constant = constant + weight @ shift.cpu().double()
    return torch.cat([weight * gain, constant[..., None]], -1)


def _gain(norm: nn.Module, width: int) -> Tensor | None:
    """What a norm of this width multiplies by: RMSNorm keeps a vector of ones, so its answer to it is its gain."""
    some = next(norm.parameters(), torch.ones(width))
    if some.numel() != width:  # of another width: over all heads at once (OLMo 2)
        return None
    if _plain(norm):
        return some.cpu().double()
    answer: Tensor = norm(torch.ones(1, width, dtype=some.dtype, device=some.device))
    return answer[0].cpu().double()


def _plain(norm: object) -> bool:
    """Whether this is torch's LayerNorm, not one that multiplies by something else (Nemotron's weight + 1)."""
    return isinstance(norm, nn.LayerNorm) and type(norm).forward is nn.LayerNorm.forward


def _norm_before(model: nn.Module, name: str) -> nn.Module | None:
    parent = model.get_submodule(name.rpartition(".")[0])
    before = getattr(parent, "do_layer_norm_before", type(parent).__name__.startswith(_SELF_NORM_BEFORE))
    found = [getattr(parent, norm, None) for norm in (*_NORMS_BEFORE, *([_SELF_NORM] if before else []))]
    usable = [norm for norm in found if _plain(norm) or "RMSNorm" in type(norm).__name__]
    return usable[0] if usable else None


def _scales_positions(module: nn.Module) -> bool:
    """Whether rotary positions change norms."""
    rope: Any = getattr(getattr(module, "config", None), "rope_parameters", None) or {}
    kinds = [rope.get("rope_type")] + [part.get("rope_type") for part in rope.values() if isinstance(part, dict)]
    return any(kind in ("yarn", "longrope") for kind in kinds)
