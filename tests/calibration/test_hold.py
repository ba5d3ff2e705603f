"""Held entropies: from statistics alone."""

import pytest
import tiny
import torch

from strop.calibration.hold import GRID, hold_entropy, measure_entropies
from strop.patching import observed, sharpened


def windows(*lengths):
    return {n: torch.cat(tiny.prose(2, n, seed=n)) for n in lengths}


def test_entropies_are_those_of_a_scaled_softmax():
    model, texts = tiny.model(), windows(64)[64]
    found = measure_entropies(model, texts)
    assert set(found) == {"model.layers.0.self_attn", "model.layers.1.self_attn"}
    first = found["model.layers.0.self_attn"]  # the first layer's logits do not depend on β elsewhere
    assert first.shape == (len(GRID), 4)
    assert (first.diff(dim=0) < 0).all()
    with observed(model) as seen:
        model(texts)
    assert seen is not None


def test_held_entropies_return_to_the_trusted_ones_in_the_first_layer():
    model, texts = tiny.model(), windows(32, 256)
    edge = hold_entropy(model, texts, trusted=32)
    name = "model.layers.0.self_attn"
    target = measure_entropies(model, texts[32])[name][GRID.index(1.0)]
    plain = measure_entropies(model, texts[256])[name][GRID.index(1.0)]
    beta = edge.parts["hold"][name].at(256, 0.0)
    rule = {name: edge.parts["hold"][name]}
    with sharpened(model, rule):
        model(texts[256])
    curve = measure_entropies(model, texts[256])[name]
    grid = torch.tensor(GRID, dtype=curve.dtype)
    for head in range(4):
        at = float(beta[head])
        place = int((grid <= at).sum()) - 1
        held = curve[place, head] + (curve[place + 1, head] - curve[place, head]) * (at - grid[place]) / (
            grid[place + 1] - grid[place]
        )
        assert abs(held - target[head]) < 0.25 * abs(plain[head] - target[head]) + 0.02
    assert (beta > 1).all()


def test_up_to_the_trusted_length_nothing_changes():
    model = tiny.model()
    edge = hold_entropy(model, windows(32, 128), trusted=32)
    ids = tiny.prose(1, 32)[0]
    wanted = model(ids).logits
    with edge.put_on(model):
        torch.testing.assert_close(model(ids).logits, wanted, atol=2e-5, rtol=1e-5)
        assert not torch.allclose(model(tiny.prose(1, 128)[0]).logits[:, :128], model(ids).logits[:, :1])
    with pytest.raises(ValueError, match="must hold the trusted length"):
        hold_entropy(model, windows(64), trusted=32)
    with pytest.raises(ValueError, match="a length beyond the trusted one"):
        hold_entropy(model, windows(32), trusted=32)
    capped = tiny.model("gemma2")
    with pytest.raises(ValueError, match="linear in the query"):
        hold_entropy(capped, windows(32, 64), trusted=32)
