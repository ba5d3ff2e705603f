"""The sweep over model families: a quick part of it, and that it sees what it is there to see."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from sweep.check import check
from sweep.columns import COLUMNS
from sweep.models import tiny_model
from sweep.watch import Watch
from torch import Tensor, nn

import strop
from strop.normalisers import Softmax


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss", "qwen2_vl", "t5", "whisper", "bert", "clip"])
@pytest.mark.filterwarnings("ignore")
def test_a_family_is_equal_in_every_column(family: str) -> None:
    row = check(family)
    wrong = {name: cell for name, cell in row.columns.items() if cell.word not in ("equal", "–")}
    assert not wrong
    assert row.attention
    assert not row.left
    assert row.columns.keys() == COLUMNS.keys()


@pytest.mark.filterwarnings("ignore")
def test_a_family_that_writes_its_attention_out_is_refused() -> None:
    assert {cell.word for cell in check("bloom").columns.values()} == {"refused", "–"}


@pytest.mark.filterwarnings("ignore")
def test_a_family_that_is_reached_in_part_is_seen_without_asking_strop() -> None:
    row = check("git")
    assert row.columns["forward"].word == row.columns["doubled"].word == "partial"
    assert row.left == ["git.encoder.layer.0.attention.self", "git.encoder.layer.1.attention.self"]


class Written(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(torch.softmax(x @ x.mT, -1), 0.1, training=False) @ x


class Mixed(nn.Module):
    """A softmax that mixes streams by weights which no product of queries and keys has made."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x, -1) @ x.mT


class Fused(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize(("kind", "count"), [(Written, 1), (Fused, 1), (Mixed, 0)])
def test_attention_is_seen_and_other_softmaxes_are_not(
    kind: type[nn.Module], count: int, draw: torch.Generator
) -> None:
    model = nn.Sequential(kind())
    with Watch(model) as seen, torch.no_grad():
        model(torch.randn(2, 4, 5, 8, generator=draw))
    assert seen.sites == ({"0": count} if count else {})


@pytest.mark.parametrize("kind", [Written, Fused])
def test_doubled_logits_are_another_scale(kind: type[nn.Module], draw: torch.Generator) -> None:
    model, x = kind(), torch.randn(2, 4, 5, 8, generator=draw)
    with Watch(model) as seen, torch.no_grad():
        model(x)
    with Watch(model, 2.0, frozenset(seen.softmaxes)), torch.no_grad():
        doubled = model(x)
    scale = 2.0 if kind is Written else 2.0 * 8**-0.5
    torch.testing.assert_close(doubled, F.scaled_dot_product_attention(x, x, x, scale=scale))


def test_what_strop_computes_is_not_left_alone() -> None:
    model, ids = tiny_model("llama"), torch.arange(3, 15)[None]
    with Watch(model) as left, strop.sharpened(model, Softmax()):
        model(ids)  # with gradients strop calls torch's own attention
    with torch.no_grad(), Watch(model) as plain:
        model(ids)
    assert not left.sites
    assert set(plain.sites) == {"model.layers.0.self_attn", "model.layers.1.self_attn"}
