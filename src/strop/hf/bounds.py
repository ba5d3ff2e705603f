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

from strop.hf.observe import Measurement
from strop.sharpness import spread_bound

_SEPARATE = (("q_proj", "k_proj"), ("query", "key"), ("q", "k"))
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
def weight_bound(model: nn.Module, call: Measurement) -> list[float] | None:
    """Return the bound on the spread of each head of one attention module, or None where it is not known."""
    module = model.get_submodule(call.name)
    heads = len(call.numbers["spread"])
    if call.biased or call.cross or _scaling_positions(module):
        return None
    q_norm, k_norm = getattr(module, "q_norm", None), getattr(module, "k_norm", None)
    children = module.named_children()
    if any(name[0] in "qk" and "norm" in name and part not in (q_norm, k_norm) for name, part in children):
        return None  # norms on q and k under other names
    if isinstance(q_norm, nn.Module) and isinstance(k_norm, nn.Module):
        bound = _normed_bound(module, q_norm, k_norm, call.scale, heads)
    else:
        bound = _projected_bound(model, module, call, heads)
    if bound is not None and call.softcap is not None:
        bound = [min(value, 2 * call.softcap) for value in bound]
    return bound


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


def _projected_bound(model: nn.Module, module: nn.Module, call: Measurement, heads: int) -> list[float] | None:
    weights, norm = _projections(module, heads, call.key_heads), _norm_before(model, call.name)
    if weights is None or norm is None:
        return None
    width = weights[0][0].shape[-1]
    gain, shift = _gain(norm, width), getattr(norm, "bias", None)
    if gain is None:
        return None
    folded = [_folded(weight, bias, gain, shift) for weight, bias in weights]
    query, key = folded[0], folded[1].repeat_interleave(heads // call.key_heads, 0)
    length = math.sqrt(width + 1)  # √D for the normed input, 1 for the constant that carries the biases
    bound = spread_bound(query, key, length, length, call.scale)
    assert isinstance(bound, Tensor)
    values: list[float] = bound.tolist()
    return values


def _folded(weight: Tensor, bias: Tensor | None, gain: Tensor, shift: Tensor | None) -> Tensor:
    """[W·diag(g), W·b + bias]: [heads, d, D + 1], to be applied to [x̂, 1]."""
    constant = torch.zeros(weight.shape[:-1], dtype=torch.float64) if bias is None else bias.double()
    if shift is not None:
        constant = constant + weight.double() @ shift.double()
    return torch.cat([weight.double() * gain.double(), constant[..., None]], -1)


def _gain(norm: nn.Module, width: int) -> Tensor | None:
    """What a norm of this width multiplies by: RMSNorm keeps a vector of ones, so its answer to it is its gain."""
    some = next(norm.parameters(), torch.ones(width))
    if some.numel() != width:  # of another width: over all heads at once (OLMo 2)
        return None
    if _plain(norm):
        return some.double()
    answer: Tensor = norm(torch.ones(1, width, dtype=some.dtype, device=some.device))
    return answer[0].double()


def _plain(norm: object) -> bool:
    """Whether this is torch's LayerNorm, not one that multiplies by something else (Nemotron's weight + 1)."""
    return isinstance(norm, nn.LayerNorm) and type(norm).forward is nn.LayerNorm.forward


def _norm_before(model: nn.Module, name: str) -> nn.Module | None:
    parent = model.get_submodule(name.rpartition(".")[0])
    before = getattr(parent, "do_layer_norm_before", type(parent).__name__.startswith(_SELF_NORM_BEFORE))
    found = [getattr(parent, norm, None) for norm in (*_NORMS_BEFORE, *([_SELF_NORM] if before else []))]
    usable = [norm for norm in found if _plain(norm) or "RMSNorm" in type(norm).__name__]
    return usable[0] if usable else None


Projection = tuple[Tensor, Tensor | None]


def _projections(module: nn.Module, heads: int, key_heads: int) -> tuple[Projection, Projection] | None:
    """Return the query and key weights [heads, d, D] and biases [heads, d] of the layouts that are known."""
    for names in _SEPARATE:
        q, k = (getattr(module, name, None) for name in names)
        if isinstance(q, nn.Linear) and isinstance(k, nn.Linear):
            return _by_head(q.weight, q.bias, heads), _by_head(k.weight, k.bias, key_heads)
    packed: Any = getattr(module, "c_attn", None)
    if packed is not None and packed.weight.shape[1] == 3 * packed.weight.shape[0]:  # GPT-2: a transposed linear layer
        query, key, _ = packed.weight.T.chunk(3)
        biases = (None,) * 3 if packed.bias is None else packed.bias.chunk(3)
        return _by_head(query, biases[0], heads), _by_head(key, biases[1], heads)
    packed = getattr(module, "query_key_value", None)
    if isinstance(packed, nn.Linear) and packed.out_features == 3 * packed.in_features and key_heads == heads:
        weight, bias = _by_head(packed.weight, packed.bias, 3 * heads)  # GPT-NeoX: q, k, v of a head lie together
        biases = (None, None) if bias is None else (bias[::3], bias[1::3])
        return (weight[::3], biases[0]), (weight[1::3], biases[1])
    return None


def _by_head(weight: Tensor, bias: Tensor | None, heads: int) -> Projection:
    return weight.unflatten(0, (heads, -1)), None if bias is None else bias.unflatten(0, (heads, -1))


def _scaling_positions(module: nn.Module) -> bool:
    """Whether rotary positions change norms."""
    rope: Any = getattr(getattr(module, "config", None), "rope_parameters", None) or {}
    kinds = [rope.get("rope_type")] + [part.get("rope_type") for part in rope.values() if isinstance(part, dict)]
    return any(kind in ("yarn", "longrope") for kind in kinds)
