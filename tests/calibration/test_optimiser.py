"""Steps in the metric of drift: as far as prose lets each number go."""

import pytest
import tiny
import torch
from torch import nn

from strop.calibration.numbers import Numbers
from strop.calibration.objective import Drift
from strop.calibration.optimiser import NaturalDescent


def descent(*values: float) -> tuple[nn.Parameter, NaturalDescent]:
    number = nn.Parameter(torch.tensor(values))
    return number, NaturalDescent([number])


def test_numbers_move_by_gain_and_by_what_prose_lets_them():
    number, natural = descent(0.0, 0.0, 0.0)
    natural.measure([torch.tensor([4.0, 1.0, 1.0])], 1.0, [1.0])
    number.grad = torch.tensor([1.0, 1.0, 0.1])
    natural.step(0.5)
    reach2 = 1.0 / (torch.tensor([4.0, 1.0, 1.0]) + 0.1 * 2.0)
    direction = -reach2 * number.grad
    assert torch.allclose(number.detach() / direction, (number.detach() / direction)[0].expand(3))
    moved = float(((number.detach() / natural.reach[0]) ** 2).sum()) ** 0.5
    assert moved == pytest.approx(0.5)  # in the metric of drift, whatever the gradient's size


def test_noise_shortens_the_steps_and_shrinking_stops_at_zero():
    number, natural = descent(0.0)
    for sign in (1.0, -1.0, 1.0, -1.0):
        number.grad = torch.tensor([sign])
        natural.step(1.0)
    assert abs(float(number.detach())) < 2.0  # four steps of one sign go 4
    with torch.no_grad():
        number.copy_(torch.tensor([0.3]))
    natural.shrink(0.2, [torch.zeros(1)])
    assert float(number.detach()) == pytest.approx(0.1)
    natural.shrink(0.2, [torch.zeros(1)])
    assert float(number.detach()) == 0.0


def test_squared_scores_tell_the_drift_of_a_small_change():
    model = tiny.model()
    learned, drift = Numbers(model, "constant", outputs=False), Drift(model, tiny.prose(4, 60))
    draw, numbers = torch.Generator().manual_seed(0), list(learned.parameters())
    squares = [torch.zeros_like(number) for number in numbers]
    with learned.on(model):
        for _ in range(4):
            for score, places in drift.scores(model, draw):
                found = torch.autograd.grad(score, numbers)
                squares = [s + g**2 / places / 16 for s, g in zip(squares, found, strict=True)]
        expected = 0.5 * float(squares[0][0, 0]) * 0.2**2
        with torch.no_grad():
            numbers[0][0, 0] = 0.2
        assert drift.worst(model) == pytest.approx(expected, rel=0.5)


def test_numbers_shrink_towards_their_start_and_not_towards_zero():
    down, start = nn.Parameter(torch.tensor([4.0, 3.5])), torch.tensor([3.0, 4.0])
    natural = NaturalDescent([down])
    natural.shrink(0.25, [start])
    assert torch.equal(down.detach(), torch.tensor([3.75, 3.75]))
    natural.shrink(10.0, [start])
    assert torch.equal(down.detach(), start)
