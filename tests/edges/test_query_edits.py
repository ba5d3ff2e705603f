"""Edits of the query: what they do to it, and where they find its pairs of dimensions."""

import pytest
import tiny
import torch
from transformers.models.cohere.modeling_cohere import CohereAttention, CohereConfig

from edges.test_edge import edge, logits, start
from strop.edges import Edge
from strop.edges.query_edits import LowRankQuery, Pairs, find_pairs
from strop.edges.temperatures import Constant
from strop.errors import ArgumentError
from strop.patching import sharpened
from strop.patching.identity import heads_of


def test_pairs_are_those_that_the_model_rotates_together():
    attention = tiny.model().model.layers[0].self_attn
    assert find_pairs(attention, 8).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]  # Llama rotates i with i + d/2
    neox = tiny.model("gpt_neox", rotary_pct=0.5).gpt_neox.layers[0].attention
    assert find_pairs(neox, 8).tolist() == [0, 1, 0, 1, 2, 3, 4, 5]  # half of the dimensions are not rotated
    cohere = CohereAttention(CohereConfig(hidden_size=32, num_attention_heads=4), 0)
    assert find_pairs(cohere, 8).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]  # neighbours
    assert find_pairs(tiny.model("gpt2").transformer.h[0].attn, 8).tolist() == list(range(8))  # no rotation


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "phi3", "starcoder", "qwen3", "gemma3"])
@torch.no_grad()
def test_equal_pairs_are_a_temperature(family):
    model = tiny.model(family)
    parts = start(model, "pairs")
    for part in parts["pairs"].values():
        part.pairs.fill_(0.4)
    with Edge.of(model, parts).put_on(model):
        found = logits(model)
    rule = {name: Constant(torch.full((heads, 1), 0.4)) for name, heads in heads_of(model).items()}
    with sharpened(model, rule):
        wanted = logits(model)
    torch.testing.assert_close(found, wanted, atol=5e-5, rtol=1e-4)
    assert (found - logits(model)).abs().max() > 1e-3


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "phi3", "starcoder", "qwen3", "gemma3"])
@pytest.mark.parametrize("form", ["pairs", "query"])
@torch.no_grad()
def test_baked_they_give_the_patched_models_logits(family, form):
    model = tiny.model(family)
    made = edge(model, form, outputs=True)
    plain = logits(model)
    with made.put_on(model):
        wanted = logits(model)
    found = logits(made.bake(model))
    torch.testing.assert_close(found, wanted, atol=1e-5 * float(wanted.abs().max()), rtol=1e-5)
    assert float((found - plain).abs().max()) > 0.01 * float(plain.abs().max())


def test_where_the_heads_share_a_norm_they_share_the_pairs():
    model = tiny.model("qwen3")
    assert [len(part.pairs) for part in start(model, "pairs")["pairs"].values()] == [1, 1]
    assert [len(part.pairs) for part in start(tiny.model(), "pairs")["pairs"].values()] == [4, 4]


def test_what_is_done_to_a_head_is_said():
    model = tiny.model()
    parts = start(model, "pairs+log-n")
    first, second = parts["pairs"].values()
    with torch.no_grad():
        first.pairs[0] = 0.3
        second.pairs[1, 0] = -0.3
    rows = Edge.of(model, parts).heads()
    assert [row["done"] for row in rows[:5]] == ["sharpened", *["left alone"] * 4]
    assert rows[5]["done"] == "softened and turned"
    assert {row["done"] for row in edge(model, "query").heads()} == {"turned"}


def test_a_model_of_no_known_layout_is_refused(monkeypatch):
    model = tiny.model()
    monkeypatch.setattr("strop.patching.layout.FAMILIES", ())
    for kind in (Pairs, LowRankQuery):
        with pytest.raises(ArgumentError, match="must keep its query weights where they are known"):
            kind.start(model.model.layers[0].self_attn, 4, 1)
