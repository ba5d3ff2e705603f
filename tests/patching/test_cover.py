"""`coverage`: what is reached, by which way, and what is not."""

from __future__ import annotations

import families
import pytest
import torch
import transformers
from torch import Tensor, nn

import strop

TOWER = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "image_size": 16, "patch_size": 4}  # fmt: skip


@pytest.fixture(scope="module")
def git() -> nn.Module:
    """A reached tower before a language model that writes its softmax out."""
    config = transformers.GitConfig(**families.COMMON, vision_config=TOWER)
    return transformers.GitForCausalLM(config).eval()


def test_a_model_that_is_reached_in_part(git: nn.Module) -> None:
    found = strop.coverage(git)
    assert not found.complete
    assert set(found.reached.values()) == {"transformers"}
    assert found.unreached == {
        f"git.encoder.layer.{layer}.attention.self": "writes its softmax out in its own code" for layer in range(2)
    }
    assert "NOT reached: writes its softmax out in its own code\n    2 × git.encoder.layer.*.attention.self" in repr(
        found
    )
    assert max(map(len, repr(found).splitlines())) <= 80


@pytest.mark.parametrize("family", families.FAMILIES)
def test_families_are_complete(family: str) -> None:
    found = strop.coverage(families.model(family))
    assert found.complete
    assert not found.others
    assert set(found.reached.values()) == {"transformers"}


def test_a_hybrid_is_complete_and_its_mixers_are_told_apart() -> None:
    config = transformers.Lfm2Config(**families.GROUPED, layer_types=["conv", "full_attention"])
    found = strop.coverage(transformers.Lfm2ForCausalLM(config))
    assert found.complete
    assert list(found.reached) == ["model.layers.1.self_attn"]
    assert found.others == {"model.layers.0.conv": "Lfm2ShortConv"}
    assert "nothing to sharpen\n    1 × model.layers.*.conv (Lfm2ShortConv)" in repr(found)


class WrittenOut(nn.Module):
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return torch.bmm(query, key.mT).softmax(-1)


def test_without_attention_nothing_is_complete() -> None:
    assert not strop.coverage(nn.Linear(2, 2)).complete
    assert repr(strop.coverage(nn.Linear(2, 2))) == "<Coverage of Linear: 0 of 0 attention modules reached>"


def test_the_model_itself_and_torchs_way() -> None:
    assert strop.coverage(nn.MultiheadAttention(8, 2)).reached == {"": "torch"}
    both = nn.ModuleDict({"a": nn.MultiheadAttention(8, 2), "b": WrittenOut()})
    assert strop.coverage(both).unreached == {"b": "writes its softmax out in its own code"}
