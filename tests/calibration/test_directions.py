"""Where a low-rank edit starts: against the definition, and in a model whose best direction is known."""

import tiny
import torch
from torch.nn.functional import cross_entropy

from strop.calibration import directions
from strop.calibration.directions import find_directions
from strop.calibration.numbers import Numbers


class Tokens:
    """A batch that wants the next tokens of some windows."""

    def __init__(self, *windows: torch.Tensor) -> None:
        self.windows = windows

    def loss(self, model):
        return torch.stack([cross_entropy(model(ids).logits[0, :-1], ids[0, 1:]) for ids in self.windows]).mean()


def gradient_of(model, batches, name):
    """The gradient of a projection's own weight: what a low-rank edit of full rank would have."""
    weight = model.get_parameter(f"{name}.q_proj.weight").requires_grad_()
    total = torch.zeros_like(weight)
    for batch in batches:
        total += torch.autograd.grad(batch.loss(model), weight)[0]
    weight.requires_grad_(False)
    return total


def inputs_of(model, run, name):
    seen = []
    hook = model.get_submodule(f"{name}.q_proj").register_forward_pre_hook(lambda _, x: seen.append(x[0].detach()[0]))
    run()
    hook.remove()
    return torch.cat(seen)


def test_directions_have_the_largest_gain_for_their_variance_in_prose(monkeypatch):
    monkeypatch.setattr(directions, "BATCHES", 2)
    model = tiny.model().requires_grad_(False)
    windows, batches = tiny.prose(3, 24), [Tokens(*tiny.prose(2, 16, seed)) for seed in (1, 2)]
    found = find_directions(model, batches, windows, 2)
    assert not any(layer._forward_pre_hooks for layer in model.modules())
    for down, name in zip(found, ("model.layers.0.self_attn", "model.layers.1.self_attn"), strict=False):
        gradient = gradient_of(model, batches, name).double()
        prose = inputs_of(model, lambda: [model(ids) for ids in windows], name).double()
        task = inputs_of(model, lambda: [batch.loss(model) for batch in batches], name).double()
        variance = prose.T @ prose / len(prose)
        variance += 0.1 * variance.diagonal().mean() * torch.eye(len(variance))
        values, vectors = torch.linalg.eig(torch.linalg.solve(variance, gradient.T @ gradient))
        best = vectors.real[:, values.real.argsort(descending=True)[:2]].T
        one, other = (torch.nn.functional.normalize(x, dim=1) for x in (down.double(), best))
        assert torch.allclose((one * other).sum(1).abs(), torch.ones(2).double(), atol=1e-3)
        assert torch.allclose((task @ down.double().T).square().mean(0), task.square().mean().expand(2), rtol=1e-3)


def test_a_calibration_starts_there_and_nothing_is_done_yet():
    model, ids = tiny.model().requires_grad_(False), torch.arange(5, 25)[None]
    numbers = Numbers(model, "query", outputs=False, rank=2)
    before, drawn = model(ids).logits, [down.detach().clone() for down in numbers.downs()]
    numbers.turn(find_directions(model, [Tokens(*tiny.prose(2, 16, 1))], tiny.prose(2, 24), 2))
    assert not any(torch.allclose(one, other) for one, other in zip(numbers.downs(), drawn, strict=True))
    with numbers.on(model):
        assert torch.equal(model(ids).logits, before)
    way = numbers.way_back(numbers.state(), 0.0)
    assert all(torch.equal(one, other) for one, other in zip(way, numbers.state(), strict=True))
    assert Numbers(model, "constant", outputs=False).downs() == []
