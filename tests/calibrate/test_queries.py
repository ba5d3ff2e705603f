import pytest
import torch
from calibrate import tiny

from strop.calibrate import queries
from strop.calibrate.tuned import Tuned
from strop.hf.patch import sharpened


def tuned_of(model):
    tuned, draw = Tuned(model, "constant", outputs=False), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in tuned.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draw))
    return tuned


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_scaled_queries_are_the_temperatures(family):
    model = tiny.model(family)
    assert queries.scalable(model)
    tuned, ids = tuned_of(model), tiny.prose(1, 40)[0]
    found = []
    for block in (queries.tempered(model, tuned.rules), sharpened(model, tuned.rules)):
        with block:
            logits = model(ids).logits
            (gradient,) = torch.autograd.grad(logits[..., 7].sum(), [next(iter(tuned.parameters()))])
        found.append((logits.detach(), gradient))
    torch.testing.assert_close(found[0][0], found[1][0], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(found[0][1], found[1][1], atol=1e-4, rtol=1e-3)
    assert not torch.allclose(model(ids).logits, found[0][0], atol=1e-2)  # it did something, and is gone


def test_a_capped_model_goes_by_the_kernels(monkeypatch):
    monkeypatch.setattr("strop.calibrate.queries.sharpened", lambda *_: pytest.fail("the kernels were asked"))
    model, capped = tiny.model(), tiny.model("gemma2")
    with queries.tempered(model, tuned_of(model).rules):
        model(tiny.prose(1, 10)[0])
    assert not queries.scalable(capped)
    with pytest.raises(pytest.fail.Exception, match="kernels"), queries.tempered(capped, tuned_of(capped).rules):
        pass
