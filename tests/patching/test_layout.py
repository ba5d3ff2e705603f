"""Where families keep their weights: a layout's query, key and value are those that the model computes."""

from __future__ import annotations

from typing import Any

import families
import pytest
import torch
from torch import Tensor, nn

from strop.calibration.forms import Constant
from strop.kernels import Request
from strop.patching import sharpened
from strop.patching.frames import Frame
from strop.patching.identity import heads_of
from strop.patching.layout import AttentionLayout, Projection, count_heads, find_layout, find_output
from strop.patching.sharpen import apply
from strop.patching.sites import find_sites

KNOWN = [family for family in (*families.FAMILIES, *families.FUSED) if family != "modernbert"]
ROTARY = ["llama", "qwen3", "gemma2", "gemma3", "gpt_neox", "gpt_oss", "phi3"]
PLAIN_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}}
"""gpt-oss's own rotary positions scale queries and keys as well."""

HELD_BY_MORE = ("qwen3", "gemma3", "gemma2", "t5")
"""A norm after the query projection, a soft cap or a bias of positions: β there is no scale of the query's weights."""


def made(family: str) -> nn.Module:
    """A model of one's own whose attention has no weight left at its start."""
    model = families.fresh(family, **(PLAIN_ROPE if family == "gpt_oss" else {}))
    draw = torch.Generator().manual_seed(3)
    for name in find_sites(model).all:
        for parameter in model.get_submodule(name).parameters():
            nn.init.normal_(parameter, std=0.3, generator=draw)
    return model.double() if family != "gpt_oss" else model  # gpt-oss's experts have no float64


def inputs_of(family: str) -> dict[str, Tensor]:
    """One batch; all tokens at position 0, so that rotary positions turn nothing."""
    given = families.inputs(family, n=9)
    given = {name: value.double() if value.is_floating_point() else value for name, value in given.items()}
    return given | {"position_ids": torch.zeros(2, 9, dtype=torch.long)} if family in ROTARY else given


def run(model: nn.Module, family: str) -> dict[str, tuple[Tensor, Tensor, Request]]:
    """Attention module → what its queries and its keys are made of, and what it then asks of attention."""
    found, given = {}, {}

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        other = kwargs.get("key_value_states")
        given[module] = hidden, hidden if other is None else other

    sites = find_sites(model)
    hooks = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in sites.all.values()]
    names = {module: name for name, module in sites.all.items()}
    modules = dict(model.named_modules())
    frame = Frame(names, observer=lambda name, request: found.update({name: (*given[modules[name]], request)}))
    with apply(model, sites, frame), torch.no_grad():
        model(**inputs_of(family))
    for hook in hooks:
        hook.remove()
    assert set(found) == set(sites.all)
    return found


def project(part: Projection, heads: int, hidden: Tensor, norm: nn.Module | None = None) -> Tensor:
    """What a projection makes of hidden states [B, n, D], as [B, heads, n, d]."""
    out = torch.einsum("hdi,bni->bhnd", part.weight(heads), hidden)
    bias = part.bias(heads)
    out = out if bias is None else out + bias[:, None]
    return out if norm is None else norm(out)


def layouts(model: nn.Module) -> dict[str, AttentionLayout]:
    return {name: find_layout(model.get_submodule(name), heads) for name, heads in heads_of(model).items()}


@pytest.mark.parametrize("family", KNOWN)
@torch.no_grad()
def test_logits_and_values_by_the_layouts_weights_are_the_models(family: str) -> None:
    model = made(family)
    calls = run(model, family)
    for name, layout in layouts(model).items():
        hidden, other, request = calls[name]
        assert layout.query is not None
        assert layout.key is not None
        assert layout.value is not None
        query = project(layout.query, layout.heads, hidden, layout.query_norm)
        key = project(layout.key, layout.key_heads, other, layout.key_norm)
        assert request.query.shape == query.shape
        assert request.key.shape == key.shape
        scale = 1.0 if family == "t5" else getattr(model.get_submodule(name), "scaling", 8**-0.5)
        groups = layout.heads // layout.key_heads
        wanted = request.scale * request.query @ request.key.repeat_interleave(groups, 1).mT
        found = scale * query @ key.repeat_interleave(groups, 1).mT
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        value = project(layout.value, layout.key_heads, other)
        torch.testing.assert_close(value, request.value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", [family for family in KNOWN if family not in HELD_BY_MORE])
@torch.no_grad()
def test_scaling_a_query_by_its_layout_is_scaling_beta(family: str) -> None:
    model, given = made(family), inputs_of(family)
    draw = torch.Generator().manual_seed(5)
    logs = {name: 0.5 * torch.randn(heads, 1, generator=draw) for name, heads in heads_of(model).items()}
    plain = model(**given).logits
    with sharpened(model, {name: Constant(len(log), log) for name, log in logs.items()}):
        wanted = model(**given).logits
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for name, layout in layouts(model).items():
        assert layout.query is not None
        layout.query.scale(logs[name].exp())
    torch.testing.assert_close(model(**given).logits, wanted, rtol=1e-4, atol=1e-4)
    assert (wanted - plain).abs().max() > 1e-2
    for name, layout in layouts(model).items():
        assert layout.query is not None
        layout.query.scale((-logs[name]).exp())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "phi3", "starcoder"])
@torch.no_grad()
def test_scaling_one_head_of_a_fused_layer_touches_its_rows_alone(family: str) -> None:
    model = made(family)
    name, heads = next(iter(heads_of(model).items()))
    layout = find_layout(model.get_submodule(name), heads)
    parts = [(layout.query, heads), (layout.key, layout.key_heads), (layout.value, layout.key_heads)]
    before = [(part.weight(count).clone(), part.bias(count)) for part, count in parts if part is not None]
    assert len(before) == 3
    before = [(weight, None if bias is None else bias.clone()) for weight, bias in before]
    assert layout.query is not None
    layout.query.scale(torch.tensor([[1.0], [2.0], [1.0], [1.0]]))
    before[0][0][1] *= 2
    if before[0][1] is not None:
        before[0][1][1] *= 2
    for (part, count), (weight, bias) in zip(parts, before, strict=True):
        assert part is not None
        assert torch.equal(part.weight(count), weight)
        assert bias is None or torch.equal(part.bias(count), bias)


def test_rows_of_a_fused_layer_are_each_some_heads_and_all_of_them() -> None:
    for family in ("gpt2", "gpt_neox", "phi3", "starcoder"):
        for layout in layouts(families.fresh(family)).values():
            assert layout.query is not None
            assert layout.key is not None
            assert layout.value is not None
            assert layout.query.layer is layout.key.layer is layout.value.layer
            rows = torch.cat([layout.query.rows, layout.key.rows, layout.value.rows]).sort().values
            width = layout.query.layer.weight.shape[int(layout.query.transposed)]
            assert torch.equal(rows, torch.arange(width)), family


def test_what_is_not_known_is_none() -> None:
    for layout in layouts(families.model("modernbert")).values():
        assert layout.query is layout.key is layout.value is None
    assert find_layout(nn.Linear(4, 4), 2) == AttentionLayout(2, 2, None, None, None, None, None)
    odd = nn.Module()
    odd.qkv_proj = nn.Linear(4, 13)
    assert find_layout(odd, 2).query is None


def test_norms_of_queries_and_keys_are_found_by_either_name() -> None:
    for family in ("qwen3", "gemma3"):
        layout = next(iter(layouts(families.model(family)).values()))
        assert "RMSNorm" in type(layout.query_norm).__name__
        assert "RMSNorm" in type(layout.key_norm).__name__
    module = nn.Module()
    module.q_layernorm, module.k_layernorm = nn.LayerNorm(4), nn.LayerNorm(4)
    layout = find_layout(module, 1)
    assert (layout.query_norm, layout.key_norm) == (module.q_layernorm, module.k_layernorm)


def test_outputs_and_heads_by_the_modules_own_word() -> None:
    for family, name in (("llama", "o_proj"), ("gpt2", "c_proj"), ("gpt_neox", "dense"), ("whisper", "out_proj")):
        module = next(iter(find_sites(families.model(family)).all.values()))
        assert find_output(module) is getattr(module, name)
    with pytest.raises(ValueError, match="Linear must have an output projection, got none of"):
        find_output(nn.Linear(2, 2))
    module = nn.Module()
    assert count_heads(module, None) is None
    assert count_heads(module, 4) == 4
    module.num_heads = 3
    assert count_heads(module, 4) == 3
    module.head_dim, module.q_proj = 8, nn.Linear(5, 16)
    assert count_heads(module, 4) == 2
