"""Level steps: Adam's rule, nothing forgotten when a calibration goes on."""

import pytest
import torch
from torch import nn

from strop.calibration.descent import choose_optimiser
from strop.calibration.level_descent import FIRST_WEIGHT, STEP, LevelDescent
from strop.calibration.optimiser import NaturalDescent

RADIUS = 0.3


def run(optimiser, gradients):
    for gradient in gradients:
        for parameter in optimiser.parameters:
            parameter.grad = gradient.clone()
        optimiser.step(0.25 * RADIUS)


def make(length=1.0):
    optimiser = LevelDescent([nn.Parameter(torch.ones(4, dtype=torch.float64))])
    optimiser.measure([], RADIUS, [length])
    return optimiser


def test_steps_are_those_of_adam():
    gradients = list(torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    ours, theirs = make(), nn.Parameter(torch.ones(4, dtype=torch.float64))
    adam = torch.optim.Adam([theirs], lr=0.25 * STEP, betas=(0.9, 0.95), eps=1e-8)
    run(ours, gradients)
    for gradient in gradients:
        theirs.grad = gradient.clone()
        adam.step()
    assert torch.allclose(ours.parameters[0], theirs, rtol=1e-12, atol=1e-12)


def test_a_saved_state_goes_on_as_if_nothing_had_happened():
    gradients = list(torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    whole, first, second = make(), make(), make()
    run(whole, gradients)
    run(first, gradients[:3])
    second.restore(first.tensors())
    second.parameters[0].data.copy_(first.parameters[0].data)
    run(second, gradients[3:])
    assert torch.equal(whole.parameters[0], second.parameters[0])


def test_a_number_moves_by_a_share_of_its_length():
    plain, short = make(), make(0.25)
    for one in (plain, short):
        run(one, [torch.ones(4, dtype=torch.float64)])
    assert torch.allclose(1 - short.parameters[0], (1 - plain.parameters[0]) / 4)


@pytest.mark.parametrize(
    ("form", "kind"),
    [("constant", NaturalDescent), ("log-n", NaturalDescent), ("pairs", LevelDescent), ("query+log-n", LevelDescent)],
)
def test_edits_of_the_query_descend_level(form, kind):
    assert choose_optimiser(form) is kind


def test_an_edit_of_higher_rank_moves_as_far_as_one_of_rank_two():
    def move(rank):
        up, down = torch.zeros(40, rank), torch.randn(rank, 30, generator=torch.Generator().manual_seed(0))
        return LevelDescent([]).pace(rank, 1.0) * float(((up + 1.0) @ down).norm())

    assert LevelDescent([]).pace(1, 1.0) == LevelDescent([]).pace(2, 1.0) == 1.0
    assert move(32) == pytest.approx(move(2), rel=0.3)  # without the pace, four times as far
    assert NaturalDescent([]).pace(32, 1e6) == 1.0


def test_steps_shorten_where_it_is_they_that_drift():
    paces = [LevelDescent([]).pace(2, weight) for weight in (1.0, FIRST_WEIGHT, 8 * FIRST_WEIGHT, 16 * FIRST_WEIGHT)]
    assert paces == [1.0, 1.0, 0.5, 0.25]
