"""What calibration wants and fears: likely answers, drift on prose, harm to guarded tasks."""

import math
from types import SimpleNamespace

import pytest
import tiny
import torch
from torch import nn

from strop.calibration.objective import Answers, Drift, Guard, Leads, largest
from strop.tasks.answers import Encoded


class Fixed(nn.Module):
    """A model that always answers alike."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, input_ids: torch.Tensor, logits_to_keep: slice, use_cache: bool) -> SimpleNamespace:
        return SimpleNamespace(logits=self.logits.expand(*input_ids[:, logits_to_keep].shape, -1))


class Told:
    """A batch whose losses are told beforehand."""

    def __init__(self, *losses: float) -> None:
        self.losses = list(losses)

    def loss(self, model: nn.Module) -> torch.Tensor:
        return torch.tensor(self.losses.pop(0))


def test_harm_is_what_a_task_loses_and_gains_in_another_do_not_make_up_for_it():
    model = nn.Identity()
    guard = Guard(model, [[[Told(1.0, 1.7), Told(1.0, 0.8)], [Told(2.0, 2.1)]], [[Told(2.0, 1.0)]]])
    assert float(guard.of(model, 0, 0)) == pytest.approx(0.25)  # within a task they are set off
    assert float(guard.of(model, 0, 3)) == pytest.approx(0.1)  # counted round
    assert float(guard.of(model, 1, 0)) == 0.0
    told = [[[Told(1.0, 0.2)]], [[Told(2.0, 2.6, 2.6)]], [[Told(2.0, 2.5)]]]
    guard = Guard(model, told)
    assert guard.harms(model, only=[1]) == pytest.approx([0.0, 0.6, 0.0])
    assert guard.harms(model) == pytest.approx([0.0, 0.6, 0.5])
    assert Guard(model, []).harms(model) == []
    with pytest.raises(ValueError, match="every guarded task must have a group"):
        Guard(model, [[]])


def test_what_is_no_number_is_the_largest():
    assert largest([0.005, 0.2]) == 0.2
    assert largest([]) == largest([-1.0]) == 0.0
    assert math.isnan(largest([0.005, math.nan]))


def test_a_right_answer_that_is_overtaken_is_harmed_though_it_became_likelier():
    """Three tokens; the right one gains 0.2 and a rival 0.5, at the cost of the third."""
    encoded = Encoded(torch.zeros(1, 0, dtype=torch.long), torch.tensor([[0, 1]]), torch.tensor([[False, True]]))
    before, after = (Fixed(torch.tensor(row).log()) for row in ((0.1, 0.4, 0.35), (0.0001, 0.48, 0.5199)))
    answer, lead = Answers([encoded]), Leads([encoded])
    assert float(answer.loss(after)) < float(answer.loss(before))
    assert float(lead.loss(after)) > float(lead.loss(before)) + 0.05
    assert float(lead.loss(before)) == pytest.approx(-math.log(0.4 / 0.75), abs=1e-6)


def test_scores_come_from_the_shortest_windows():
    model = tiny.model()
    drift = Drift(model, [*tiny.prose(2, 20), *tiny.prose(3, 40)])
    assert [places for _, places in drift.scores(model, torch.Generator().manual_seed(0))] == [4, 4]


def test_drift_is_that_of_the_worse_length():
    model, ids = tiny.model(), [*tiny.prose(2, 20), *tiny.prose(1, 40)]
    drift = Drift(model, ids)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.mul_(1.5)
        each = [float(drift.of(model, i)) for i in range(3)]
        assert drift.worst(model) == pytest.approx(max((each[0] + each[1]) / 2, each[2]))
