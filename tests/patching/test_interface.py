"""The functions that transformers calls: what they refuse, and configs that stay as they were."""

from __future__ import annotations

import families
import pytest
import torch
from torch import nn

from strop.patching.interface import attention_function, switch


def test_keywords_of_paged_attention_are_refused_not_dropped() -> None:
    x = torch.zeros(1, 2, 3, 4)
    with pytest.raises(NotImplementedError, match=r"Linear must say which keys .* got \['cache'\] in its call"):
        attention_function(nn.Linear(1, 1), x, x, x, None, cache=object())


def test_a_module_without_frames_is_plain_softmax(draw: torch.Generator) -> None:
    q, k = (torch.randn(1, 2, 5, 4, generator=draw) for _ in range(2))
    out, weights = attention_function(nn.Linear(1, 1), q, k, k, None, is_causal=True, scaling=0.3)
    expected = nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.3).transpose(1, 2)
    assert weights is None
    torch.testing.assert_close(out, expected)


def test_one_query_sees_every_key_of_a_cache(draw: torch.Generator) -> None:
    q, k = torch.randn(1, 2, 1, 4, generator=draw), torch.randn(1, 2, 5, 4, generator=draw)
    out, _ = attention_function(nn.Linear(1, 1), q, k, k, None, is_causal=True)
    torch.testing.assert_close(out, nn.functional.scaled_dot_product_attention(q, k, k).transpose(1, 2))


def test_configs_are_switched_by_each_parts_own_word_and_put_back() -> None:
    model = families.fresh("t5")
    model.encoder._supports_sdpa = False
    names = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}.values()
    before = [config._attn_implementation for config in names]
    with switch([model]):
        assert model.config._attn_implementation == "strop"
        assert model.encoder.config._attn_implementation == "strop_eager"
        with switch([model]):
            pass
        assert model.config._attn_implementation == "strop"
    assert [config._attn_implementation for config in names] == before
