"""`strop.calibrate`: from a model and a task to an edge, whatever the task is given as; the model stays as it was."""

import json
from pathlib import Path

import pytest
import tiny
import torch

import strop
from strop.calibration.descent import _Descent
from strop.calibration.settings import GUARD
from strop.errors import ArgumentError, StropWarning
from strop.records import runs
from strop.tasks.prompts import Prompts

SMALL = {
    "form": "constant", "sizes": (2, 3), "steps": 2, "every": 1, "rate": 0.02, "budget": 5.0, "lengths": (32,),
    "windows": 1, "guard": (), "runs": None,
}  # fmt: skip
PAIRS = [(f"The code of {i} is", str(i)) for i in range(10)]


def calibrate(task="recall", model=None, **changes):
    return strop.calibrate(tiny.model() if model is None else model, tiny.tokeniser(), task, **(SMALL | changes))


def changed(edge: strop.Edge) -> int:
    return sum(row["done"] != "left alone" for row in edge.heads())


def files(folder: Path) -> list[Path]:
    """The states of unfinished calibrations."""
    return sorted(folder.rglob("state.safetensors"))


def test_a_task_by_name_gives_an_edge_that_says_how_it_was_made():
    model = tiny.model()
    edge = calibrate("maximum", model, name="mine", seed=3)
    edge.check(model)
    assert (edge.form, edge.kind) == ("constant", "constant and outputs")
    assert edge.made["model"] == "mine"
    recipe, progress = edge.made["recipe"], edge.made["progress"]
    assert (recipe["task"], recipe["sizes"], recipe["seed"], recipe["data"]) == ("maximum", (2, 3), 3, None)
    assert edge.made["settings"]["budget"] == 5.0
    assert progress["step"] == 2
    assert progress["best_task"] <= progress["first_task"]
    said = f"Validation loss {progress['first_task']:.3f} → {progress['best_task']:.3f} nats"
    assert edge.summary.startswith(said)
    loss = f"validation loss {progress['first_task']:.3f} → {progress['best_task']:.3f} nats"
    assert repr(edge) == f"<Edge for mine (llama): constant and outputs, {changed(edge)} of 8 heads changed; {loss}>"


def test_the_same_call_gives_the_same_edge_and_another_seed_another():
    first, again, other = (calibrate(steps=4, every=4, seed=seed) for seed in (0, 0, 1))
    assert changed(first) > 0
    assert first.digest == again.digest
    assert other.digest != first.digest


def test_prompts_of_ones_own_are_pairs_or_a_file(tmp_path: Path):
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": prompt, "answer": answer}) for prompt, answer in PAIRS))
    plain = tmp_path / "own"  # any file will do, whatever its name
    plain.write_text(path.read_text())
    edges = [calibrate(task) for task in (PAIRS, path, str(path), str(plain))]
    assert changed(edges[0]) > 0
    assert len({edge.digest for edge in edges}) == 1
    recipes = [edge.made["recipe"] for edge in edges]
    assert {recipe["task"] for recipe in recipes} == {"jsonl"}
    assert {recipe["prompts"] for recipe in recipes} == {Prompts.read(PAIRS).checksum}
    assert [recipe["data"] for recipe in recipes] == ["prompts in memory", str(path), str(path), str(plain)]


def test_text_needs_no_answers():
    edge = calibrate("text", trusted=16, form="log-n")
    assert edge.form == "log-n"
    assert edge.made["recipe"]["task"] == "text"
    assert edge.made["progress"]["step"] == 2


def test_held_entropies_come_from_statistics_alone(monkeypatch):
    monkeypatch.setattr(_Descent, "_step", lambda self: pytest.fail("a step was taken"))
    edge = calibrate(form="hold", trusted=16)
    assert edge.form == "hold"
    assert edge.summary.startswith("Entropies held at their value at 16 keys. Heads: ")
    assert edge.made["recipe"]["trusted"] == 16


def test_other_tasks_are_guarded_unless_told_otherwise(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "strop.calibration.data.Data.guard", lambda self, _: asked.append(self.recipe.guard) or ([], [])
    )
    for guard, task, wanted in (
        (None, "recall", GUARD[1:]),
        (None, "counting", tuple(name for name in GUARD if name != "counting")),
        (None, PAIRS, GUARD),
        (["counting"], "recall", ("counting",)),
        ((), "recall", ()),
    ):
        edge = calibrate(task, guard=guard, steps=1)
        assert asked.pop() == wanted
        assert edge.made["recipe"]["guard"] == wanted


class StoppedError(Exception):
    """What interrupts a calibration in these tests."""


def stop_at(monkeypatch, at: int) -> list[int]:
    steps, step = [], _Descent._step

    def stops(self):
        steps.append(self.progress.step)
        if len(steps) == at:
            raise StoppedError
        step(self)

    monkeypatch.setattr(_Descent, "_step", stops)
    return steps


def test_an_interrupted_calibration_goes_on_to_the_same_edge(tmp_path: Path, monkeypatch):
    settings = {"steps": 4, "every": 2}
    whole = calibrate(**settings)
    assert whole.made["progress"]["best_step"] == 4  # so that what is compared comes after the interruption
    steps = stop_at(monkeypatch, 4)
    with pytest.raises(StoppedError):
        calibrate(**settings, runs=tmp_path)
    (state,) = files(tmp_path)
    assert (state.parent.parent, state.name) == (tmp_path / "calibrate", "state.safetensors")
    assert calibrate(**settings, runs=tmp_path).digest == whole.digest
    assert steps == [0, 1, 2, 3, 3]  # the fourth step again, and no other
    assert files(tmp_path) == []


def test_an_unfinished_calibration_is_not_continued_by_another(tmp_path: Path, monkeypatch):
    settings = {"steps": 3, "every": 1, "runs": tmp_path}
    steps = stop_at(monkeypatch, 3)
    with pytest.raises(StoppedError):
        calibrate(**settings)
    assert len(files(tmp_path)) == 1
    for other in ({"seed": 1}, {"budget": 0.1}, {"sizes": (2, 4)}, {"task": "counting"}, {"model": tiny.model(seed=1)}):
        steps.clear()
        steps += [0] * 3  # it does not stop again
        calibrate(**(settings | other))
        assert steps[3:] == [0, 1, 2], other
    assert len(files(tmp_path)) == 1  # still there for whoever began it


def test_success_leaves_a_record_of_every_head_and_nothing_is_written_without_a_folder(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calibrate(runs=None)
    assert list(tmp_path.iterdir()) == []
    edge = calibrate(runs="runs")
    assert files(tmp_path) == []
    (run,) = runs("calibrate", tmp_path / "runs")
    assert run.records() == edge.heads()
    assert run.config()["settings"]["steps"] == edge.made["settings"]["steps"]


def test_the_first_phase_is_kept_and_is_not_done_again(tmp_path: Path, monkeypatch):
    """Stopped in the first step: what was measured before it is read, not measured."""
    begun, begin = [], _Descent._begin
    monkeypatch.setattr(_Descent, "_begin", lambda self, seen: (begun.append(1), begin(self, seen)))
    stop_at(monkeypatch, 1)
    with pytest.raises(StoppedError):
        calibrate(steps=2, runs=tmp_path)
    assert len(files(tmp_path)) == 1
    assert calibrate(steps=2, runs=tmp_path).made["progress"]["step"] == 2
    assert begun == [1]


def mixed() -> torch.nn.Module:
    """A model half of which is frozen, and half of which trains."""
    model = tiny.model().requires_grad_(True).train()
    model.model.layers[0].requires_grad_(False).eval()
    return model


def flags(model: torch.nn.Module) -> tuple[list[bool], list[bool]]:
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    return wanted, [module.training for module in model.modules()]


@pytest.mark.parametrize("form", ["constant", "hold"])
def test_the_model_is_as_it_was(form):
    model = mixed()
    before, state = flags(model), {key: value.clone() for key, value in model.state_dict().items()}
    calibrate(model=model, form=form, trusted=16)
    assert flags(model) == before
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.config._attn_implementation == "sdpa"
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_the_model_is_as_it_was_after_an_error_too(monkeypatch):
    model = mixed()
    before = flags(model)
    stop_at(monkeypatch, 1)
    with pytest.raises(StoppedError):
        calibrate(model=model)
    assert flags(model) == before


def test_dropout_is_off_in_training_mode():
    model = tiny.model("gpt2")
    still = calibrate(model=model)
    assert changed(still) > 0
    assert calibrate(model=model.train()).digest == still.digest


def test_a_model_by_name_is_opened(tmp_path: Path):
    edge = strop.calibrate(str(tiny.save(tmp_path / "small")), **SMALL)
    assert edge.made["model"] == "small"
    edge.check(tiny.model())


def test_prose_lengths_beyond_the_model_are_left_out_with_a_word():
    with pytest.warns(StropWarning, match="The model has 1,024 positions: prose is read at 32 tokens"):
        edge = calibrate(lengths=(32, 4096))
    assert edge.made["recipe"]["lengths"] == (32,)


def test_wrong_arguments_are_told_before_the_model_is_opened(tmp_path: Path):
    for changes, words in (
        ({"task": "recal"}, "Did you mean 'recall'"),
        ({"task": tmp_path / "no"}, "no must exist"),
        ({"task": str(tmp_path / "no.jsonl")}, "no.jsonl must exist"),
        ({"task": []}, "task must hold prompts"),
        ({"task": PAIRS[:4]}, "must hold at least 5 prompts"),
        ({"task": "recall", "form": "constnat"}, "Did you mean 'constant'"),
        ({"task": "recall", "phrasings": ["room"]}, "phrasings must not be held out"),
        ({"task": "recall", "guard": ["recall"]}, "guard must name other tasks"),
        ({"task": "recall", "sizes": (3,)}, "sizes must be the smallest and the largest"),
    ):
        with pytest.raises(strop.StropError, match=words):
            strop.calibrate("no-such-model", **(SMALL | changes))
    with pytest.raises(ArgumentError, match="tokenizer must come with a model"):
        strop.calibrate(tiny.model(), **SMALL)


def test_a_file_of_a_tasks_name_is_not_taken_for_it(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("recall", "text"):
        (tmp_path / name).write_text("no prompts")
        assert calibrate(name, trusted=16, steps=1).made["recipe"]["task"] == name
