"""What a step leaves as it was: prose and guarded tasks in turn, and λ by what prose says."""

import pytest
import torch
from torch import nn

from strop.calibration.still import AIM, HARM, PACE, change_weight, hold_still, reads_prose


class Told:
    """A drift, or a guard of some tasks, whose slope in the model's only number tells by what it was asked."""

    def __init__(self, slope: float, tasks: int = 0) -> None:
        self.slope, self.tasks = slope, [None] * tasks

    def of(self, model: nn.Module, *asked: int) -> torch.Tensor:
        told = 1 + sum(10**place * one for place, one in enumerate(asked))
        return (self.slope * told * model.weight).sum().clamp(min=0.0)


def pull(step, tasks, harm=5.0):
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    drift = hold_still(model, Told(3.0), Told(harm, tasks), step, 0.5)
    return None if model.weight.grad is None else float(model.weight.grad), float(drift)


def test_without_a_guard_every_step_reads_prose():
    assert [pull(step, tasks=0) for step in range(3)] == [(1.5, 3.0), (3.0, 6.0), (4.5, 9.0)]
    assert all(reads_prose(Told(1.0), step) for step in range(3))


def test_with_a_guard_prose_and_guarded_tasks_take_turns_at_twice_their_weight():
    found = [pull(step, tasks=2) for step in range(8)]
    assert found[::2] == [(3.0, 3.0), (6.0, 6.0), (9.0, 9.0), (12.0, 12.0)]
    assert found[1::2] == [(2 * HARM * 5.0 * told, 0.0) for told in (1, 2, 11, 12)]  # two tasks, then other groups
    assert [reads_prose(Told(1.0, 2), step) for step in range(4)] == [True, False, True, False]


def test_a_guarded_task_that_gains_pulls_nothing():
    assert pull(1, tasks=1, harm=-5.0) == (None, 0.0)


def test_the_weight_of_drift_follows_the_budget():
    assert change_weight(2.0, AIM * 0.01, 0.01) == pytest.approx(2.0)
    assert change_weight(2.0, 1.1 * AIM * 0.01, 0.01) == pytest.approx(2.0 * 1.1**0.2)
    assert change_weight(2.0, 1.0, 0.01) == pytest.approx(2.0 * (1 + PACE))
    assert change_weight(2.0, -1e-9, 0.01) == pytest.approx(2.0 * (1 - PACE))
