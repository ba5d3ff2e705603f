import math

import pytest
import torch
from torch import Generator, nn

from strop.studies.arena import Budget
from strop.studies.arena.training import train_on
from strop.studies.problems import find_problem


class Mean(nn.Module):
    """Class logits from the mean item, enough to learn which tenth the average lies in."""

    def __init__(self, features, classes):
        super().__init__()
        torch.manual_seed(0)
        self.read = nn.Sequential(nn.Linear(features, 32), nn.GELU(), nn.Linear(32, classes))

    def forward(self, items, query):
        return self.read(items.mean(1))


def trained(steps=300, lr=1e-2, seed=0):
    task = find_problem("average")
    model = Mean(task.features, task.classes)
    train_on(model, task, Budget(steps=steps, batch=32, warmup=10), lr, Generator().manual_seed(seed))
    return model


def test_the_loop_learns_and_is_the_same_twice():
    one, same, other = trained(), trained(), trained(seed=1)
    problems = find_problem("average").sample(500, 12, Generator().manual_seed(5))
    accuracy = (one(*problems.arguments).argmax(-1) == problems.answers).double().mean()
    assert accuracy > 0.5
    assert not one.training
    pairs = [*zip(one.parameters(), same.parameters(), other.parameters(), strict=True)]
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not torch.equal(pairs[0][0], pairs[0][2])


def test_rates_rise_and_fall():
    budget = Budget(steps=100, warmup=10)
    rates = [budget.rate(2.0, step) for step in range(101)]
    assert rates[0] == pytest.approx(0.2)
    assert max(rates) == rates[9]
    assert rates[50] == pytest.approx(1.0)
    assert rates[100] == pytest.approx(0.0)


def test_a_loss_that_is_not_finite_ends_the_training():
    with pytest.raises(ArithmeticError, match=r"loss must stay finite, got (inf|nan) at step \d+\. Lower lr\."):
        trained(steps=50, lr=math.sqrt(torch.finfo(torch.float32).max))


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batch": 0}, {"warmup": 0}, {"weight_decay": -1.0}, {"clip": 0.0}])
def test_impossible_budgets_are_told(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        Budget(**wrong)
