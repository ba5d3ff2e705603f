import math

import torch
from calibrate import tiny

from strop.calibrate.objective import Answers, Drift
from strop.calibrate.tuned import Tuned
from strop.tasks.passages import Passage


def losses(model, reader):
    one = Passage("a: 1\nb: 2\n", (("a:", " 1"),))
    several = Passage("a: 1\nb: 2\n", (("a:", " 1"), ("b:", " 2")))  # reads its context into a cache
    drift = Drift(model, tiny.prose(1, 30))
    batches = [Answers([reader.encode(passage)]) for passage in (one, several)]
    return lambda: sum((batch.loss(model) for batch in batches), drift.of(model, 0))


def test_recomputed_layers_give_the_same_gradients_and_are_put_back():
    model = tiny.model()
    loss, gradients, forwards = losses(model, tiny.reader()), [], [layer.forward for layer in model.model.layers]
    for form in ("constant", "log-n"):
        tuned = Tuned(model, form, outputs=True)
        with tuned.on(model):
            plain = loss()
            plain.backward()
            gradients = [parameter.grad.clone() for parameter in tuned.parameters()]
        tuned.zero_grad()
        with tuned.on(model, again=True):
            again = loss()
            again.backward()
        assert math.isfinite(float(again.detach()))
        for parameter, expected in zip(tuned.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad, expected, atol=1e-5, rtol=1e-4)
    assert [layer.forward for layer in model.model.layers] == forwards


def test_layers_are_run_again_instead_of_remembered():
    model, runs = tiny.model(), []
    tuned, drift = Tuned(model, "constant", outputs=False), Drift(model, tiny.prose(1, 30))
    model.model.layers[0].self_attn.register_forward_pre_hook(lambda *_: runs.append(1))
    with tuned.on(model, again=True):
        drift.of(model, 0).backward()
    assert len(runs) == 2
