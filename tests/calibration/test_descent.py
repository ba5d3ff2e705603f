"""The descent: the task gets better within the budget, and nothing is lost by an interruption."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import tiny
import torch
from torch import nn

from strop.calibration import descent
from strop.calibration.descent import descend
from strop.calibration.objective import Answers, Drift
from strop.calibration.settings import Settings
from strop.errors import DamagedFileError
from strop.records.tensors import write_tensors
from strop.tasks.passages import Passage

READER = tiny.reader()
QUESTIONS = (("The code of oak is", " 41"), ("The code of fir is", " 73"))
PASSAGE = Passage("The code of oak is 41. The code of fir is 73. ", QUESTIONS)
BATCH = Answers([READER.encode(PASSAGE)])


def run(model, settings, batches=(BATCH,), **more):
    prose = tiny.prose(2, 30)
    return descend(model, batches, prose, [BATCH], prose, settings, **more)


@pytest.mark.parametrize(("form", "outputs"), [("constant", False), ("log-n", True), ("none", True)])
def test_the_task_gets_better_and_the_weights_stay(form, outputs):
    model = tiny.model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    edge = run(model, Settings(form=form, outputs=outputs, steps=12, budget=5.0, every=4))
    progress = edge.made["progress"]
    assert progress["best_task"] < progress["first_task"] - 0.05
    with torch.no_grad(), edge.put_on(model):
        assert float(BATCH.loss(model)) == pytest.approx(progress["best_task"], abs=1e-4)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_what_is_kept_is_within_the_budget():
    model = tiny.model()
    prose = tiny.prose(2, 30)
    seen = []
    settings = Settings(form="constant", steps=8, rate=2.0, budget=0.01, every=2, patience=9)
    edge = run(model, settings, tick=lambda progress: seen.append(progress))
    assert max(progress.valid_drift for progress in seen) > 0.01  # it went too far
    assert min(progress.valid_task for progress in seen) < edge.made["progress"]["best_task"]  # and gained by it
    drift = Drift(model, prose)
    with edge.put_on(model):
        assert drift.worst(model) <= 0.01
    assert edge.made["progress"]["best_task"] <= edge.made["progress"]["first_task"]
    assert edge.made["progress"]["best_drift"] <= 0.01


class Worse:
    """A task that no edge improves: any change makes it worse."""

    def loss(self, model: nn.Module) -> torch.Tensor:
        drift = [((model(ids).logits - was) ** 2).mean() for ids, was in zip(self.ids, self.was, strict=True)]
        return sum(drift[1:], drift[0])

    def __init__(self, model: nn.Module) -> None:
        self.ids = tiny.prose(1, 20, seed=5)
        self.was = [model(ids).logits.detach() for ids in self.ids]


def test_a_calibration_that_finds_nothing_leaves_the_model_as_it_was():
    model = tiny.model()
    prose, worse = tiny.prose(1, 30), Worse(model)
    edge = descend(
        model, [BATCH], prose, [worse], prose, Settings(form="constant", steps=30, every=2, patience=3, budget=1.0)
    )
    assert edge.made["progress"]["best_step"] == 0
    assert edge.made["progress"]["step"] == 6  # patience
    assert {row["done"] for row in edge.heads()} == {"left alone"}


def test_every_pass_of_a_descent_is_a_quick_one(monkeypatch):
    model, named = tiny.model(), set()
    own = type(model).forward

    def forward(self, *args, **more):
        named.add(self.config._attn_implementation)
        return own(self, *args, **more)

    monkeypatch.setattr(type(model), "forward", forward)
    run(model, Settings(form="query", steps=2, every=1, budget=1.0))
    assert named == {"strop"}


def test_sparsity_leaves_heads_alone():
    model = tiny.model()
    dense = run(model, Settings(form="constant", steps=8, budget=5.0, every=4))
    sparse = run(model, Settings(form="constant", steps=8, budget=5.0, every=4, sparsity=0.3))
    count = [sum(row["done"] == "left alone" for row in edge.heads()) for edge in (dense, sparse)]
    assert count[0] == 0
    assert 0 < count[1] < 8


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("form", ["constant", "query"])
def test_an_interrupted_calibration_goes_on_to_the_same_edge(tmp_path: Path, form: str):
    sparsity = 0.0 if form == "constant" else 0.5  # by which numbers are drawn to where they started
    model, settings = tiny.model(), Settings(form, steps=8, every=2, budget=5.0, rate=0.02, sparsity=sparsity)
    batches, guard = [BATCH], [[[BATCH]]]
    whole = run(model, settings, batches, guard=guard)
    assert whole.made["progress"]["best_step"] == 8  # so that what is compared comes after the interruption

    def stop(progress):
        if progress.step == 5:
            raise StoppedError

    state = tmp_path / "state.safetensors"
    with pytest.raises(StoppedError):
        run(model, settings, batches, tick=stop, resume=state, guard=guard)
    steps = []
    again = run(model, settings, batches, tick=lambda p: steps.append(p.step), resume=state, guard=guard)
    assert steps[0] == 5  # from the last whole step, which no validation followed
    assert again.digest == whole.digest
    state.write_bytes(state.read_bytes()[:-9])
    with pytest.raises(DamagedFileError, match="a whole safetensors file"):
        run(model, settings, batches, resume=state)
    write_tensors(state, {"other": torch.ones(3)})
    with pytest.raises(DamagedFileError, match="must be an unfinished calibration of these settings"):
        run(model, settings, batches, resume=state)


def test_progress_begins_before_the_first_step_and_reaches_its_end():
    told, model = [], tiny.model()
    prose, longer = tiny.prose(2, 30), tiny.prose(1, 40)
    guard = [[[BATCH], [BATCH]]]
    more = {"guard": guard, "validation_guard": guard[0], "begun": lambda done, of: told.append((done, of))}
    descend(
        model,
        [BATCH],
        [*prose, *longer],
        [BATCH],
        prose,
        Settings(form="constant", steps=1),
        lambda _: told.append("step"),
        **more,
    )
    of = 3 + 2 + 2 + 2 + 2 + 1  # prose twice, the guard twice, the shortest windows again, validation
    assert told == [*((i, of) for i in range(of + 1)), "step", "step"]


def test_the_same_seed_gives_the_same_edge():
    edges = [run(tiny.model(), Settings(form="constant", steps=3, budget=1.0)) for _ in range(2)]
    assert edges[0].digest == edges[1].digest


def test_a_model_that_is_not_frozen_is_refused():
    with pytest.raises(ValueError, match="model must be frozen"):
        run(tiny.model().requires_grad_(True), Settings())


def asked(context, question, answer):
    return Answers([READER.encode(Passage(context, ((question, answer),)))])


RECALL = asked("The code of oak is 41. ", "The code of oak is", " 41")
RIVAL = asked("The code of oak is 41. ", "The code of oak is", " zz")


def calibrated(settings, **guards):
    model, prose = tiny.model(), tiny.prose(2, 30)
    edge = descend(model, [RECALL], prose, [RECALL], prose, settings, **guards)
    with edge.put_on(model), torch.no_grad():
        return edge.made["progress"], float(RIVAL.loss(model))


def test_descent_keeps_away_from_harm():
    settings = Settings(form="constant", steps=16, every=16, budget=5.0, harm=50.0)
    free, lost = calibrated(settings)
    guarded, kept = calibrated(settings, guard=[[[RIVAL]]])
    with torch.no_grad():
        untouched = float(RIVAL.loss(tiny.model()))
    assert lost > untouched + 0.1
    assert kept < untouched + 0.03
    assert guarded["best_task"] < guarded["first_task"] - 0.05
    assert free["best_harm"] == guarded["best_harm"] == 0.0  # nothing was validated


def test_what_is_kept_does_no_more_harm_than_allowed():
    settings = Settings(form="constant", steps=8, every=2, budget=5.0, harm=0.3, patience=9)
    progress, kept = calibrated(settings, validation_guard=[[RIVAL]])
    with torch.no_grad():
        untouched = float(RIVAL.loss(tiny.model()))
    assert progress["valid_harm"] > 0.3  # it went too far
    assert 0.0 < progress["best_harm"] <= 0.3
    assert kept - untouched == pytest.approx(progress["best_harm"], abs=1e-3)
    assert progress["best_task"] < progress["first_task"]


def test_the_end_of_a_descent_comes_closer_to_what_is_allowed(monkeypatch):
    settings = Settings(form="constant", steps=8, every=8, budget=5.0, harm=0.3, patience=9)
    found = {}
    for halvings in (0, 2):
        monkeypatch.setattr(descent, "HALVINGS", halvings)
        found[halvings], _ = calibrated(settings, validation_guard=[[RIVAL]])
    assert found[0]["valid_harm"] == found[2]["valid_harm"] > 0.3  # it went too far
    assert found[0]["best_harm"] < found[2]["best_harm"] <= 0.3
    assert found[2]["best_task"] < found[0]["best_task"]


def test_a_descent_that_patience_ends_comes_closer_too(monkeypatch):
    looked, own = [], descent._Descent._is_within
    monkeypatch.setattr(
        descent._Descent, "_is_within", lambda self, here: looked.append(self.progress.step) or own(self, here)
    )

    def gain_nothing(self, found):
        self.progress = replace(self.progress, waited=self.progress.waited + 1)

    monkeypatch.setattr(descent._Descent, "_keep", gain_nothing)
    settings = Settings(form="constant", steps=40, every=8, budget=5.0, harm=0.1, patience=3)
    progress, _ = calibrated(settings, validation_guard=[[RIVAL]])
    assert progress["step"] == 16
    assert looked == [8] + [16] * (1 + descent.HALVINGS)


def test_the_way_back_looks_at_what_is_beyond_and_measures_all_where_that_is_within(monkeypatch):
    """Two guarded tasks: one that suffers, and one that suffers only between the start and the end."""
    asked = []

    class Hump:
        def loss(self, model):
            lost = float(RIVAL.loss(model))
            asked.append(lost)
            return torch.tensor(1.0 if low < lost < high else 0.0)

    with torch.no_grad():
        untouched = float(RIVAL.loss(tiny.model()))
    low, high = untouched + 0.2, untouched + 0.3  # the last points that the first task alone would allow
    settings = Settings(form="constant", steps=8, every=8, budget=5.0, harm=0.3)
    progress, kept = calibrated(settings, validation_guard=[[RIVAL], [Hump()]])
    assert progress["valid_harm"] > 0.3
    assert kept < low
    assert progress["best_task"] < progress["first_task"]
    assert 3 < len(asked) <= 3 + descent.HALVINGS  # before, at the end, and where the first task was within


def test_steps_learn_how_prose_stands():
    seen = []
    settings = Settings(form="constant", steps=6, every=6, budget=5.0)
    calibrated(settings, guard=[[[RECALL]], [[RIVAL]]], tick=lambda progress: seen.append(progress))
    weights = [progress.weight for progress in seen[1:]]
    assert [later == now for now, later in pairwise(weights)] == [True, False, True, False, True]  # after prose alone
    assert all(progress.drift > 0.0 for progress in seen[3:])  # what prose last said, though the last step read none


def test_the_rank_of_a_low_rank_edit_is_no_concern_of_others():
    found = [calibrated(Settings(form="pairs", rank=rank, steps=4, every=4, budget=5.0))[0] for rank in (1, 8)]
    assert found[0]["valid_task"] == found[1]["valid_task"] < found[0]["first_task"]
