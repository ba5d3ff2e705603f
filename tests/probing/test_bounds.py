"""Proposition 3.1's bound holds for every input, and is known for the layouts that we say it is."""

from __future__ import annotations

import families
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from strop.kernels import Mask
from strop.patching import observed
from strop.probing.bounds import bound_spread

KNOWN = ["llama", "qwen3", "gemma3", "gpt2", "gpt_neox", "gemma2"]


def bounds_and_spreads(family: str, tokens: torch.Tensor) -> list[tuple[list[float] | None, list[float]]]:
    model = families.model(family)
    with observed(model) as seen, torch.no_grad():
        model(input_ids=tokens)
    return [(bound_spread(model, call), call.numbers["spread_max"].tolist()) for call in seen.calls]


def exceeds_nowhere(model: torch.nn.Module) -> None:
    with observed(model) as seen, torch.no_grad():
        model(input_ids=families.ids(2, 24))
    for call in seen.calls:
        bound = bound_spread(model, call)
        assert bound is not None
        assert all(s <= b for s, b in zip(call.numbers["spread_max"].tolist(), bound, strict=True))


@pytest.mark.parametrize("family", KNOWN)
def test_no_measured_spread_exceeds_the_bound(family: str) -> None:
    for seed in range(3):
        for bound, spread in bounds_and_spreads(family, families.ids(2, 24, seed=seed)):
            assert bound is not None
            assert len(bound) == 4
            assert all(s <= b for s, b in zip(spread, bound, strict=True))


@given(seed=st.integers(0, 10_000))
def test_the_bound_of_a_llama_layer_holds_for_any_hidden_state(seed: int) -> None:
    """Attack it directly: hidden states of any size and direction, through the layer's own norm and projections."""
    model = families.model("llama")
    layer = model.model.layers[0]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 32, generator=generator) * 10 ** torch.randn(12, 1, generator=generator)
    with torch.no_grad():
        y = layer.input_layernorm(x)
        q = layer.self_attn.q_proj(y).view(12, 4, 8).transpose(0, 1)
        k = layer.self_attn.k_proj(y).view(12, 2, 8).transpose(0, 1).repeat_interleave(2, 0)
        logits = q @ k.mT / 8**0.5
    spread = (logits.amax(-1) - logits.amin(-1)).amax(-1)
    (bound, _), *_ = bounds_and_spreads("llama", families.ids(1, 8))
    assert bound is not None
    assert all(s <= b for s, b in zip(spread.tolist(), bound, strict=True))


def test_soft_capping_bounds_the_spread_by_twice_the_cap() -> None:
    (bound, _), *_ = bounds_and_spreads("gemma2", families.ids(1, 8))
    assert bound == [10.0] * 4


@pytest.mark.parametrize("family", ["bert", "t5", "gpt_oss"])
def test_no_bound_where_it_is_not_known(family: str) -> None:
    """BERT norms after attention, T5 adds a position bias, gpt-oss scales its rotary positions."""
    model = families.model(family)
    with observed(model) as seen, torch.no_grad():
        model(**families.inputs(family))
    assert all(bound_spread(model, call) is None for call in seen.calls if "EncDec" not in call.name)


def test_a_norms_shift_counts() -> None:
    """A small gain and a large shift: logits differ by the shift times the keys, far past what the gain allows."""
    model = families.fresh("gpt2")
    generator = torch.Generator().manual_seed(0)
    for block in model.transformer.h:
        torch.nn.init.constant_(block.ln_1.weight, 0.02)
        torch.nn.init.normal_(block.ln_1.bias, std=3.0, generator=generator)
    exceeds_nowhere(model)


def kind(name: str, **changes: object) -> torch.nn.Module:
    config = getattr(transformers, f"{name}Config")(**(families.COMMON | changes))
    return getattr(transformers, f"{name}Model")(config).eval()  # type: ignore[no-any-return]


BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
CODE = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64, "multi_query": True}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("Olmo2", {"num_key_value_heads": 2}),  # norms over all heads at once
        ("GPTBigCode", CODE | {"multi_query": False}),  # q, k and v of a head together, under GPT-2's name
        ("Nemotron", {"num_key_value_heads": 2}),  # a LayerNorm that multiplies by weight + 1
        ("Persimmon", {"qk_layernorm": True}),  # norms on q and k under other names
        ("Bart", BART | {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48}),  # its norm comes after attention
    ],
)
def test_no_bound_for_layouts_that_look_like_known_ones(name: str, changes: dict[str, object]) -> None:
    model, tokens = kind(name, **changes), families.ids(1, 9)
    with observed(model) as seen, torch.no_grad():
        model(input_ids=tokens)
    assert seen.calls
    assert all(bound_spread(model, call) is None for call in seen.calls)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("GPTBigCode", CODE),  # one key head beside four query heads in one layer
        ("Phi3", {"num_key_value_heads": 2}),  # two key heads beside four query heads in one layer
    ],
)
def test_fused_projections_have_bounds(name: str, changes: dict[str, object]) -> None:
    model, generator = kind(name, **changes), torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    exceeds_nowhere(model)


@pytest.mark.parametrize("family", ["whisper", "opt"])
def test_norms_before_attention_under_barts_name(family: str) -> None:
    made = {
        "whisper": lambda: families.model("whisper"),
        "opt": lambda: kind("OPT", ffn_dim=48, word_embed_proj_dim=32),
    }
    model = made[family]()
    with observed(model) as seen, torch.no_grad():
        model(**families.inputs(family))
    for call in seen.calls:
        bound = bound_spread(model, call)
        assert (bound is None) == call.cross
        assert bound is None or all(s <= b for s, b in zip(call.numbers["spread_max"].tolist(), bound, strict=True))
    assert bound_spread(model, seen.calls[0]) is not None


def test_a_bound_does_not_need_biases() -> None:
    model = families.fresh("gpt_neox", attention_bias=False)
    exceeds_nowhere(model)


def test_a_mask_that_adds_a_bias_takes_the_bound_away() -> None:
    mask = torch.zeros(1, 1, 3, 3)
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    assert not Mask.of(mask).adds
    assert not Mask.of(mask.masked_fill(hidden, torch.finfo(torch.float32).min)).adds
    assert not Mask.of(torch.ones(3, 3, dtype=torch.bool)).adds
    assert Mask.of(mask - 0.5).adds
