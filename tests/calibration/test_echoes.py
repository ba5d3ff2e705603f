"""Batches without answers: a longer context must not make the end of a text less likely."""

import pytest
import tiny
import torch

from strop.calibration.descent import descend
from strop.calibration.echoes import make_echoes, make_tails
from strop.calibration.settings import Settings


def test_a_tail_compares_the_same_tokens_after_long_and_short_contexts():
    model, (ids,) = tiny.model(), tiny.prose(1, 60)
    (tail,) = make_tails(model, [ids], trusted=20)
    scores = model(ids[:, -20:]).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, -19:, None])[:, 0]
    torch.testing.assert_close(tail.short, -scores[-10:], atol=1e-4, rtol=1e-4)
    long = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[-10:, 0]
    assert float(tail.loss(model)) == pytest.approx(float((-long - tail.short).clamp(min=0).mean()), abs=1e-4)
    (kept,) = make_tails(model, [ids], trusted=20, first=1)
    short = torch.cat([ids[:, :1], ids[:, -19:]], 1)
    scores = model(short).logits[0, :-1].log_softmax(-1).gather(-1, short[0, 1:, None])[:, 0]
    torch.testing.assert_close(kept.short, -scores[-10:], atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="trusted must be shorter"):
        make_tails(model, [ids], trusted=60)


@pytest.mark.parametrize("first", [0, 1])
def test_an_echo_is_an_excerpt_said_again_and_judged_by_the_text_around_it(first):
    model, (ids,) = tiny.model(), tiny.prose(1, 60)
    (echo,) = make_echoes(model, [ids], trusted=16, draw=torch.Generator().manual_seed(3), first=first)
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
        make_echoes(model, [ids], trusted=31, draw=torch.Generator())


def test_a_label_free_calibration_lowers_its_loss():
    model = tiny.model()
    batches = make_tails(model, tiny.prose(2, 96), trusted=24)
    prose = tiny.prose(1, 20, seed=4)
    edge = descend(model, batches, prose, batches, prose, Settings(form="log-n", steps=8, every=4, budget=5.0))
    progress = edge.made["progress"]
    assert 0 <= progress["best_task"] < progress["first_task"]
