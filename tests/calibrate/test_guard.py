import math
from types import SimpleNamespace

import pytest
import torch
from calibrate import tiny
from torch import nn

from strop.calibrate.fit import Settings, calibrate
from strop.calibrate.guard import Guard
from strop.calibrate.objective import Answers, Leads
from strop.calibrate.recipe import Recipe
from strop.tasks.answers import Encoded
from strop.tasks.catalogue import TASKS, generator_of, others
from strop.tasks.passages import Passage, sample, seen

READER = tiny.reader()


class Fixed(nn.Module):
    """A model that always answers alike."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, input_ids: torch.Tensor, logits_to_keep: torch.Tensor, use_cache: bool) -> SimpleNamespace:
        return SimpleNamespace(logits=self.logits.expand(len(input_ids), len(logits_to_keep), -1))


def asked(context, question, answer):
    return Answers([READER.encode(Passage(context, ((question, answer),)))])


RECALL = asked("The code of oak is 41. ", "The code of oak is", " 41")
RIVAL = asked("The code of oak is 41. ", "The code of oak is", " zz")


class Told:
    """A batch whose losses are told beforehand."""

    def __init__(self, *losses: float) -> None:
        self.losses = list(losses)

    def loss(self, model: nn.Module) -> torch.Tensor:
        return torch.tensor(self.losses.pop(0))


def test_harm_is_what_is_lost_and_gains_do_not_make_up_for_it():
    model = nn.Identity()
    guard = Guard(model, [[Told(1.0, 1.5), Told(1.0, 0.2)], [Told(2.0, 2.1)]])
    assert float(guard.of(model, 0)) == pytest.approx(0.25)
    assert float(guard.of(model, 3)) == pytest.approx(0.1)  # counted round
    assert Guard(model, [[Told(1.0, 1.5), Told(1.0, 0.2)], [Told(2.0, 2.6)]]).worst(model) == pytest.approx(0.6)
    assert Guard(model, []).worst(model) == 0.0
    assert float(Guard(model, []).of(model, 5)) == 0.0


def calibrated(settings, **guards):
    model, prose = tiny.model(), tiny.prose(2, 30)
    edge = calibrate(model, [RECALL], prose, [RECALL], prose, settings, **guards)
    with edge.applied(model), torch.no_grad():
        return edge.made["progress"], float(RIVAL.loss(model))


def test_descent_keeps_away_from_harm():
    settings = Settings(steps=16, every=16, budget=5.0, harm=50.0)
    free, lost = calibrated(settings)
    guarded, kept = calibrated(settings, guard=[[RIVAL]])
    with torch.no_grad():
        untouched = float(RIVAL.loss(tiny.model()))
    assert lost > untouched + 0.1
    assert kept < untouched + 0.03
    assert guarded["best_task"] < guarded["first_task"] - 0.05
    assert free["best_harm"] == guarded["best_harm"] == 0.0  # nothing was validated


def test_what_is_kept_does_no_more_harm_than_allowed():
    settings = Settings(steps=8, every=2, budget=5.0, harm=0.3, patience=9)
    progress, kept = calibrated(settings, validation_guard=[[RIVAL]])
    with torch.no_grad():
        untouched = float(RIVAL.loss(tiny.model()))
    assert progress["valid_harm"] > 0.3  # it went too far
    assert 0.0 < progress["best_harm"] <= 0.3
    assert kept - untouched == pytest.approx(progress["best_harm"], abs=1e-3)
    assert progress["best_task"] < progress["first_task"]


def test_guarded_passages_are_few_short_and_of_the_right_split():
    learned, validated = Recipe(sizes=(2, 5), questions=3, guard=others("recall")).guarded(READER)
    assert len(learned) == 4 * 4
    assert [len(seen(TASKS[name])) <= len(group) for name, group in zip([*TASKS][1:], validated, strict=True)] == [
        True
    ] * 4
    lengths = [[batch.passages[0].context.numel() for batch in group] for group in learned]
    assert max(sum(group[:-1]) for group in lengths) < 300  # the last passage may go beyond
    assert max(map(len, lengths)) == 3
    assert others("text") == (*TASKS,)
    assert Recipe().guarded(READER) == ([], [])
    (group,) = Recipe(sizes=(400, 600), guard=("variables",), questions=1).guarded(READER)[1]
    assert max(batch.passages[0].context.numel() for batch in group) < 1000  # of 24 at most, whatever the task's size
    with pytest.raises(ValueError, match="guard must name other tasks"):
        Recipe(guard=("recall",))
    task = TASKS["maximum"]
    (first,) = sample(task, 1, 5, seen(task)[:1], generator_of("validation", 0), 3)
    assert torch.equal(validated[0][0].passages[0].context, READER.encode(first).context)


def test_a_right_answer_that_is_overtaken_is_harmed_though_it_became_likelier():
    """Three tokens; the right one gains 0.2 and a rival 0.5, at the cost of the third."""
    encoded = Encoded(torch.zeros(1, 0, dtype=torch.long), torch.tensor([[0, 1]]), torch.tensor([[False, True]]))
    before, after = (Fixed(torch.tensor(row).log()) for row in ((0.1, 0.4, 0.35), (0.0001, 0.48, 0.5199)))
    answer, lead = Answers([encoded]), Leads([encoded])
    assert float(answer.loss(after)) < float(answer.loss(before))
    assert float(lead.loss(after)) > float(lead.loss(before)) + 0.05
    assert float(lead.loss(before)) == pytest.approx(-math.log(0.4 / 0.75), abs=1e-6)


def test_the_guard_watches_leads_where_asked():
    for leads, kind in ((False, Answers), (True, Leads)):
        recipe = Recipe(sizes=(2, 3), questions=2, guard=("counting",), guard_leads=leads)
        assert {type(batch) for groups in recipe.guarded(READER) for group in groups for batch in group} == {kind}
