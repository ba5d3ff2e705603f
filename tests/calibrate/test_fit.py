from pathlib import Path

import pytest
import torch
from calibrate import tiny
from torch import nn

from strop.calibrate.fit import Settings, calibrate
from strop.calibrate.forms import FORMS
from strop.calibrate.objective import Answers, Drift
from strop.calibrate.tuned import Tuned
from strop.records import DamagedFileError
from strop.tasks.passages import Passage

READER = tiny.reader()
QUESTIONS = (("The code of oak is", " 41"), ("The code of fir is", " 73"))
PASSAGE = Passage("The code of oak is 41. The code of fir is 73. ", QUESTIONS)
BATCH = Answers([READER.encode(PASSAGE)])


def run(model, settings, batches=(BATCH,), **more):
    prose = tiny.prose(2, 30)
    return calibrate(model, batches, prose, [BATCH], prose, settings, **more)


@pytest.mark.parametrize("form", ["constant", "log-n", "polynomial", "none"])
def test_gradients_through_the_frozen_model_meet_finite_differences(form):
    model = tiny.model().double()
    tuned = Tuned(model, form, outputs=True).double()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in tuned.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    drift = Drift(model, tiny.prose(1, 25))

    def value():
        with tuned.on(model):
            return BATCH.loss(model) + 3.0 * drift.of(model, 0)

    value().backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    for parameter in tuned.parameters():
        if parameter.numel() == 0:
            continue
        place, step = tuple(0 for _ in parameter.shape), 1e-4
        found = float(parameter.grad[place])
        with torch.no_grad():
            parameter[place] += step
            above = float(value())
            parameter[place] -= 2 * step
            below = float(value())
            parameter[place] += step
        # losses are float32 at the end, so that differences are known to about 1e-3
        assert found == pytest.approx((above - below) / (2 * step), abs=5e-3, rel=2e-2)


@pytest.mark.parametrize(("form", "outputs"), [("constant", False), ("log-n", True), ("none", True)])
def test_the_task_gets_better_and_the_weights_stay(form, outputs):
    model = tiny.model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    edge = run(model, Settings(form=form, outputs=outputs, steps=12, budget=5.0, every=4))
    progress = edge.made["progress"]
    assert progress["best_task"] < progress["first_task"] - 0.05
    with torch.no_grad(), edge.applied(model):
        assert float(BATCH.loss(model)) == pytest.approx(progress["best_task"], abs=1e-4)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_what_is_kept_is_within_the_budget():
    model = tiny.model()
    prose = tiny.prose(2, 30)
    seen = []
    settings = Settings(steps=8, rate=2.0, budget=0.01, every=2, patience=9)
    edge = run(model, settings, tick=lambda progress: seen.append(progress))
    assert max(progress.valid_drift for progress in seen) > 0.01  # it went too far
    assert min(progress.valid_task for progress in seen) < edge.made["progress"]["best_task"]  # and gained by it
    drift = Drift(model, prose)
    with edge.applied(model):
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
    edge = calibrate(model, [BATCH], prose, [worse], prose, Settings(steps=30, every=2, patience=3, budget=1.0))
    assert edge.made["progress"]["best_step"] == 0
    assert edge.made["progress"]["step"] == 6  # patience
    assert all(not numbers.any() for numbers in edge.numbers.values())
    assert {row["done"] for row in edge.heads()} == {"left alone"}


def test_sparsity_leaves_heads_alone():
    model = tiny.model()
    dense = run(model, Settings(steps=8, budget=5.0, every=4))
    sparse = run(model, Settings(steps=8, budget=5.0, every=4, sparsity=0.3))
    count = [sum(row["done"] == "left alone" for row in edge.heads()) for edge in (dense, sparse)]
    assert count[0] == 0
    assert 0 < count[1] < 8


class StoppedError(Exception):
    pass


def test_an_interrupted_calibration_goes_on_to_the_same_edge(tmp_path: Path):
    model, settings = tiny.model(), Settings(steps=8, every=2, budget=5.0, rate=0.02)
    batches = [BATCH]
    whole = run(model, settings, batches)
    assert whole.made["progress"]["best_step"] == 8  # so that what is compared comes after the interruption

    def stop(progress):
        if progress.step == 5:
            raise StoppedError

    state = tmp_path / "state.safetensors"
    with pytest.raises(StoppedError):
        run(model, settings, batches, tick=stop, resume=state)
    steps = []
    again = run(model, settings, batches, tick=lambda p: steps.append(p.step), resume=state)
    assert steps[0] == 5  # from the validation at step 4
    for name, numbers in whole.numbers.items():
        assert torch.equal(again.numbers[name], numbers)
    state.write_bytes(state.read_bytes()[:-9])
    with pytest.raises(DamagedFileError, match="unfinished calibration"):
        run(model, settings, batches, resume=state)


def test_the_same_seed_gives_the_same_edge():
    edges = [run(tiny.model(), Settings(steps=3, budget=1.0)) for _ in range(2)]
    assert edges[0].digest == edges[1].digest


def test_a_model_that_is_not_frozen_and_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="model must be frozen"):
        run(tiny.model().requires_grad_(True), Settings())
    with pytest.raises(ValueError, match=r"Did you mean .constant."):
        Settings(form="constnat")
    with pytest.raises(ValueError, match="budget must be a finite number greater than 0"):
        Settings(budget=0)
    with pytest.raises(ValueError, match="form must have numbers to learn"):
        Settings(form="none", outputs=False)


def test_forms_start_at_one_and_say_what_they_use():
    from strop.sharpness import RowStats

    logits = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    for name, kind in FORMS.items():
        rule = kind(3)
        assert torch.equal(rule.inverse_temperature(RowStats.of(logits)).expand(2, 3, 5), torch.ones(2, 3, 5)), name
    log_n = FORMS["log-n"](2, torch.tensor([[0.5, 0.2], [0.0, -9.0]]))
    assert log_n.at(256, 0.0).tolist() == pytest.approx([1.5, 1.0])
    assert log_n.at(1024, 0.0).tolist() == pytest.approx([1.5 + 0.2 * 1.3862944, 0.0])
    polynomial = FORMS["polynomial"](1, torch.tensor([[0.1, 0.2, 0.3, 0.4]]))
    assert float(polynomial.at(9, 2.0)) == pytest.approx(1.1 + 0.2 / 2 + 0.3 / 4 + 0.4 / 8)
    hold = FORMS["hold"](1, torch.tensor([[0.5, 4.0]]))
    assert float(hold.at(20, 0.0)) == 1.0
    assert float(hold.at(200, 0.0)) == pytest.approx(1 + 0.5 * (5.2983174 - 4.0))
