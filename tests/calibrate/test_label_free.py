import pytest
import torch
from calibrate import tiny

from strop.calibrate.fit import Settings, calibrate
from strop.calibrate.hold import GRID, entropies, hold_entropy
from strop.calibrate.label_free import echoes, tails
from strop.hf.patch import sharpened


def windows(*lengths):
    return {n: torch.cat(tiny.prose(2, n, seed=n)) for n in lengths}


def test_entropies_are_those_of_a_scaled_softmax():
    from strop.hf.observe import observed

    model, texts = tiny.model(), windows(64)[64]
    found = entropies(model, texts)
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
    target = entropies(model, texts[32])[name][GRID.index(1.0)]
    plain = entropies(model, texts[256])[name][GRID.index(1.0)]
    beta = edge.normalisers()[name].at(256, 0.0)
    rule = {name: edge.normalisers()[name]}
    with sharpened(model, rule):
        model(texts[256])
    curve = entropies(model, texts[256])[name]
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
    with edge.applied(model):
        torch.testing.assert_close(model(ids).logits, wanted, atol=2e-5, rtol=1e-5)
        assert not torch.allclose(model(tiny.prose(1, 128)[0]).logits[:, :128], model(ids).logits[:, :1])
    with pytest.raises(ValueError, match="must hold the trusted length"):
        hold_entropy(model, windows(64), trusted=32)
    with pytest.raises(ValueError, match="a length beyond the trusted one"):
        hold_entropy(model, windows(32), trusted=32)
    capped = tiny.model("gemma2")
    with pytest.raises(ValueError, match="linear in the query"):
        hold_entropy(capped, windows(32, 64), trusted=32)


def test_a_tail_compares_the_same_tokens_after_long_and_short_contexts():
    model, (ids,) = tiny.model(), tiny.prose(1, 60)
    (tail,) = tails(model, [ids], trusted=20)
    scores = model(ids[:, -20:]).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, -19:, None])[:, 0]
    torch.testing.assert_close(tail.short, -scores[-10:], atol=1e-4, rtol=1e-4)
    long = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[-10:, 0]
    assert float(tail.loss(model)) == pytest.approx(float((-long - tail.short).clamp(min=0).mean()), abs=1e-4)
    (kept,) = tails(model, [ids], trusted=20, first=1)
    short = torch.cat([ids[:, :1], ids[:, -19:]], 1)
    scores = model(short).logits[0, :-1].log_softmax(-1).gather(-1, short[0, 1:, None])[:, 0]
    torch.testing.assert_close(kept.short, -scores[-10:], atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="trusted must be shorter"):
        tails(model, [ids], trusted=60)


@pytest.mark.parametrize("first", [0, 1])
def test_an_echo_is_an_excerpt_said_again_and_judged_by_the_text_around_it(first):
    model, (ids,) = tiny.model(), tiny.prose(1, 60)
    (echo,) = echoes(model, [ids], trusted=16, draw=torch.Generator().manual_seed(3), first=first)
    assert echo.ids.shape == ids.shape
    assert torch.equal(echo.ids[:, :56], ids[:, :56])
    excerpt = echo.ids[0, -4:]
    (end,) = (i + 4 for i in range(57) if torch.equal(ids[0, i : i + 4], excerpt))
    assert 12 <= end <= 30
    short = torch.cat([ids[0, :first], ids[0, end - 12 + first : end], excerpt])[None]
    assert short.shape[1] == 16
    scores = model(short).logits[0, :-1].log_softmax(-1).gather(-1, short[0, 1:, None])[-4:, 0]
    torch.testing.assert_close(echo.short, -scores, atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="at most half of every window"):
        echoes(model, [ids], trusted=31, draw=torch.Generator())


def test_a_label_free_calibration_lowers_its_loss():
    model = tiny.model()
    batches = tails(model, tiny.prose(2, 96), trusted=24)
    prose = tiny.prose(1, 20, seed=4)
    edge = calibrate(model, batches, prose, batches, prose, Settings(form="log-n", steps=8, every=4, budget=5.0))
    progress = edge.made["progress"]
    assert 0 <= progress["best_task"] < progress["first_task"]
