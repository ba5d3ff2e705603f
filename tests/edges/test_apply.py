"""How numbers act on a model while it learns: scaled queries are temperatures, and layers may be run twice."""

import math

import pytest
import tiny
import torch

from strop.calibration.numbers import Numbers
from strop.calibration.objective import Answers, Drift
from strop.edges import apply
from strop.edges.apply import temper
from strop.patching import sharpened
from strop.tasks.passages import Passage


def moved(model):
    numbers, draw = Numbers(model, "constant", outputs=False), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in numbers.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw))
    return numbers


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_scaled_queries_are_the_temperatures(family):
    model = tiny.model(family)
    assert apply._takes_scaled_queries(model)
    numbers, ids = moved(model), tiny.prose(1, 40)[0]
    found = []
    for block in (temper(model, numbers.parts["constant"], True), sharpened(model, numbers.parts["constant"])):
        with block:
            logits = model(ids).logits
            (gradient,) = torch.autograd.grad(logits[..., 7].sum(), [next(iter(numbers.parameters()))])
        found.append((logits.detach(), gradient))
    torch.testing.assert_close(found[0][0], found[1][0], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(found[0][1], found[1][1], atol=1e-4, rtol=1e-3)
    assert not torch.allclose(model(ids).logits, found[0][0], atol=1e-2)  # it did something, and is gone


def test_a_capped_model_goes_by_the_kernels(monkeypatch):
    monkeypatch.setattr("strop.edges.apply.sharpened", lambda *_, **__: pytest.fail("the kernels were asked"))
    model, capped = tiny.model(), tiny.model("gemma2")
    with temper(model, moved(model).parts["constant"], True):
        model(tiny.prose(1, 10)[0])
    assert not apply._takes_scaled_queries(capped)
    with pytest.raises(pytest.fail.Exception, match="kernels"), temper(capped, moved(capped).parts["constant"], True):
        pass


def losses(model, reader):
    one = Passage("a: 1\nb: 2\n", (("a:", " 1"),))
    several = Passage("a: 1\nb: 2\n", (("a:", " 1"), ("b:", " 2")))  # reads its context into a cache
    drift = Drift(model, tiny.prose(1, 30))
    batches = [Answers([reader.encode(passage)]) for passage in (one, several)]
    return lambda: sum((batch.loss(model) for batch in batches), drift.of(model, 0))


def test_recomputed_layers_give_the_same_gradients_and_are_put_back():
    model = tiny.model()
    loss, gradients, forwards = losses(model, tiny.reader()), [], [layer.forward for layer in model.model.layers]
    for form in ("constant", "log-n", "query+log-n", "pairs"):
        numbers = Numbers(model, form, outputs=True)
        with numbers.on(model):
            plain = loss()
            plain.backward()
            gradients = [parameter.grad.clone() for parameter in numbers.parameters()]
        numbers.zero_grad()
        with numbers.on(model, again=True):
            again = loss()
            again.backward()
        assert math.isfinite(float(again.detach()))
        for parameter, expected in zip(numbers.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad, expected, atol=1e-5, rtol=1e-4)
    assert [layer.forward for layer in model.model.layers] == forwards


def test_layers_are_run_again_instead_of_remembered():
    model, runs = tiny.model(), []
    numbers, drift = Numbers(model, "constant", outputs=False), Drift(model, tiny.prose(1, 30))
    model.model.layers[0].self_attn.register_forward_pre_hook(lambda *_: runs.append(1))
    with numbers.on(model, again=True):
        drift.of(model, 0).backward()
    assert len(runs) == 2
