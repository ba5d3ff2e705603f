"""The state of a head at a wrong answer, by what it gives the evidence and what is written instead."""

import math

import pytest
import torch

from strop.diagnosing.carriers import Carrier
from strop.diagnosing.causes import STATES, find_states
from strop.diagnosing.groups import HeadPlace

ENOUGH = torch.tensor([0.2])


class Row:
    """One row of one head."""

    def __init__(self, **numbers: float) -> None:
        self.numbers = numbers

    def number(self, name: str) -> torch.Tensor:
        return torch.tensor([[[self.numbers[name]]]])


@pytest.mark.parametrize(
    ("numbers", "state"),
    [
        ({}, "reads"),
        ({"weight": 0.1}, "dispersion"),
        ({"held": 0.24, "rival": 0.29, "beta": 2.0}, "dispersion"),  # three places of what is written outweigh one
        ({"weight": 0.1, "rank": 2.0, "beta": 3.0}, "dispersion"),
        ({"weight": 0.1, "rank": 2.0}, "order"),
        ({"held": 0.1, "rival": 0.5, "rank": 2.0}, "order"),
        ({"weight": 0.1, "rank": 2.0, "top": 0.0}, "sink"),
    ],
)
def test_the_state_of_a_head(numbers, state):
    plain = {"weight": 0.3, "held": 0.3, "rival": 0.0, "rank": 1.0, "beta": math.inf, "top": 5.0}
    carriers = [Carrier(0, HeadPlace(0, "layer", 0), 1.0, 1.0)]
    assert STATES[int(find_states(Row(**plain | numbers), carriers, ENOUGH))] == state
