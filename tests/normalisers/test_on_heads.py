"""One normaliser made of two: each head's own rule, in weights, queries and sinks."""

from __future__ import annotations

import pytest
import torch

from strop.kernels import attention
from strop.normalisers import TRA, LearnedSink, Linear, OffByOne, Softmax, Sparsemax, SSMax
from strop.normalisers.base import Normaliser
from strop.normalisers.fusion import Dense
from strop.normalisers.on_heads import NormaliserOnHeads, TemperatureOnHeads, on_heads


class Doubled(Softmax):
    """Doubles the query."""

    def prepare_query(self, query: torch.Tensor, n_keys: torch.Tensor) -> torch.Tensor:
        return 2 * query


@pytest.mark.parametrize("chosen", [Softmax(3.0), OffByOne(), LearnedSink(heads=4), SSMax(heads=4), Sparsemax()])
@pytest.mark.parametrize("others", [Softmax(), OffByOne(5.0), Sparsemax()])
def test_each_head_has_its_own_weights(chosen: Normaliser, others: Normaliser, draw: torch.Generator) -> None:
    logits = torch.randn(2, 4, 5, 6, generator=draw)
    keep = torch.rand(2, 1, 5, 6, generator=draw) > 0.3
    both = on_heads([1, 2], 4, chosen, others).weights(logits, keep)
    torch.testing.assert_close(both[:, [1, 2]], chosen.weights(logits, keep)[:, [1, 2]])
    torch.testing.assert_close(both[:, [0, 3]], others.weights(logits, keep)[:, [0, 3]])


def test_two_temperatures_stay_a_temperature() -> None:
    both = on_heads([0], 2, SSMax(), Softmax())
    assert isinstance(both, TemperatureOnHeads)
    assert both.uses == "n_keys"
    assert both.sink() is None
    assert isinstance(on_heads([0], 2, Sparsemax(), Softmax()), NormaliserOnHeads)


def test_each_head_has_its_own_query(draw: torch.Generator) -> None:
    query = torch.randn(1, 3, 2, 4, generator=draw)
    both = on_heads([1], 3, Doubled(), Softmax()).prepare_query(query, torch.tensor(2))
    assert torch.equal(both[:, 1], 2 * query[:, 1])
    assert torch.equal(both[:, [0, 2]], query[:, [0, 2]])
    assert on_heads([1], 3, Softmax(2.0), Softmax()).prepare_query(query, torch.tensor(2)) is query


def test_a_head_without_a_sink_loses_nothing() -> None:
    sink = on_heads([0], 2, OffByOne(), Softmax()).sink()
    assert sink is not None
    assert sink.flatten().tolist() == [0.0, -torch.inf]


@pytest.mark.parametrize("chosen", [Linear(), TRA(heads=3, head_dim=4)])
def test_each_head_has_its_own_keys_and_sees_its_query(chosen: Normaliser, draw: torch.Generator) -> None:
    query, key, value = torch.randn(3, 2, 3, 5, 4, generator=draw)
    both = attention(query, key, value, normaliser=on_heads([1], 3, chosen, Softmax()))
    torch.testing.assert_close(both[:, 1], attention(query, key, value, normaliser=chosen)[:, 1])
    torch.testing.assert_close(both[:, [0, 2]], attention(query, key, value)[:, [0, 2]])


def test_what_both_say_holds_for_the_pair() -> None:
    both = on_heads([0], 2, Linear(), Softmax())
    assert not both.additive
    assert not both.logits_alone
    assert isinstance(both.fusion(), Dense)
    assert on_heads([0], 2, Sparsemax(), Softmax()).additive
    assert on_heads([0], 2, Sparsemax(), Softmax()).logits_alone
