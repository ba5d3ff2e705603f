"""The form auto: which rungs are climbed, which is kept, and that none is climbed twice."""

from dataclasses import replace
from pathlib import Path

import pytest
import tiny

import strop
from strop.calibration import ladder
from strop.calibration.descent import _Descent
from strop.calibration.ladder import RUNGS, climb
from strop.calibration.settings import Settings
from strop.edges.card import describe_ladder, make_card
from strop.errors import ArgumentError

SMALL = {
    "form": "auto", "sizes": (2, 3), "steps": 1, "every": 1, "rate": 0.02, "budget": 5.0, "lengths": (32,),
    "windows": 1, "guard": (), "echoes": 0, "runs": None,
}  # fmt: skip


def calibrate(task="recall", model=None, **changes):
    return strop.calibrate(tiny.model() if model is None else model, tiny.tokeniser(), task, **(SMALL | changes))


class Planned:
    """A maker whose rungs reach the losses that a test says, on twelve groups."""

    progress = False

    def __init__(self, monkeypatch, *losses: float) -> None:
        self.made, plan = [], iter(losses)
        monkeypatch.setattr(ladder, "draw_groups", lambda _: [None] * 12)
        monkeypatch.setattr(ladder, "find_obstacle", lambda *_: "")
        monkeypatch.setattr(ladder, "_measure", lambda *_: [next(plan)] * 12)

    def make(self, settings: Settings, title: str, keep: bool) -> strop.Edge:
        self.made.append((settings.form, settings.rank))
        assert keep
        progress = {"best_drift": 0.001, "best_harm": 0.0, "seconds": 1.0}
        return replace(tiny.edge(), made={"settings": {"form": settings.form}, "progress": progress})


NAMES = [(rung.form, rung.rank) for rung in RUNGS]


@pytest.mark.parametrize(
    ("losses", "tried", "kept"),
    [
        ((9, 8, 7, 6, 5, 4, 3), 6, ("query", 8)),  # every rung gains
        ((9, 8, 7, 6, 5, 5), 5, ("query", 2)),  # the first rank that gains nothing ends it
        ((9, 8, 8.5, 7, 7.5), 4, ("query", 1)),  # pairs may gain nothing: the next is of another form
        ((9, 8, 8, 8), 3, ("constant", 1)),
        ((9, 9, 9, 9.5), 3, ("constant", 1)),  # nothing gains at all
        ((9, 9.5, 9.2, 9.1), 3, ("constant", 1)),
        ((9, 9.5, 8.5, 9), 3, ("pairs", 1)),  # compared with the untouched model where constant gained nothing
    ],
)
def test_one_climbs_while_it_gains(monkeypatch, losses, tried, kept):
    maker = Planned(monkeypatch, *losses)
    found = climb(maker, Settings()).made["ladder"]
    assert maker.made == NAMES[:tried]
    assert (found["kept"]["form"], found["kept"]["rank"]) == kept
    assert found["untouched"] == losses[0]
    assert [row["loss"] for row in found["rungs"]] == list(losses[1 : 1 + tried])


@pytest.mark.parametrize(
    ("target", "tried", "kept"),
    [(7, 2, ("pairs", 1)), (9.5, 1, ("constant", 1)), (5.0, 5, ("query", 4)), (0, 6, ("query", 4))],
)
def test_a_target_ends_the_climb_at_the_smallest_rung_that_reaches_it(monkeypatch, target, tried, kept):
    maker = Planned(monkeypatch, 9, 8, 7, 6, 6, 5, 5)  # rank 2 gains nothing, which does not end it
    found = climb(maker, Settings(), target).made["ladder"]
    assert maker.made == NAMES[:tried]
    assert (found["kept"]["form"], found["kept"]["rank"]) == kept


def test_a_gain_must_be_told_apart_from_chance(monkeypatch):
    """A lower mean over groups of which half became worse is no gain."""
    plan = iter([[1.0] * 12, [0.0] * 6 + [1.9] * 6, [1.0] * 12, [1.0] * 12])
    maker = Planned(monkeypatch)
    monkeypatch.setattr(ladder, "_measure", lambda *_: next(plan))
    first = climb(maker, Settings()).made["ladder"]["rungs"][0]
    assert first["change"] < 0
    assert first["p"] > 0.5
    assert not first["gained"]


def test_where_nothing_gains_that_is_said(monkeypatch):
    for losses, words in (((9, 8, 8, 8), "Kept: constant."), ((9, 9, 9, 9), "Kept: constant. No rung gained.")):
        assert describe_ladder(climb(Planned(monkeypatch, *losses), Settings()))[-1] == words


def test_a_rung_that_the_model_cannot_have_is_skipped_with_its_reason(monkeypatch):
    monkeypatch.setattr("strop.patching.layout.FAMILIES", ())
    edge = calibrate(outputs=False)
    rows = edge.made["ladder"]["rungs"]
    assert edge.form == "constant"
    assert [("skipped" in row) for row in rows] == [False, *[True] * 5]
    assert "must keep its query weights where they are known" in rows[1]["skipped"]
    assert describe_ladder(edge)[2].startswith("pairs: skipped. LlamaAttention must keep")
    monkeypatch.setattr(ladder, "RUNGS", RUNGS[1:])
    with pytest.raises(ArgumentError, match=r"form auto must have a rung that suits the model, got none\. LlamaAttent"):
        calibrate(outputs=False)


def test_the_same_groups_judge_all_and_are_enough_for_a_test(monkeypatch):
    """Of a built-in task more are drawn from the same split; a user's prompts stay the fifth that they are."""
    drawn, draw = [], ladder.draw_groups
    monkeypatch.setattr(ladder, "RUNGS", RUNGS[:1])
    monkeypatch.setattr(ladder, "draw_groups", lambda maker: drawn.append(draw(maker)) or drawn[-1])
    calibrate()
    contexts = [tuple(group.passages[0].context[0].tolist()) for group in drawn[0]]
    assert len(set(contexts)) == len(contexts) >= 12
    calibrate([(f"The code of {i} is", str(i)) for i in range(10)])
    assert len(drawn[1]) == 2
    calibrate("text", trusted=16)
    assert len(drawn[2]) == 12


class StoppedError(Exception):
    """What interrupts a climb."""


def test_an_interrupted_climb_goes_on_and_no_finished_rung_is_made_again(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(ladder, "RUNGS", RUNGS[:3])
    whole = calibrate()
    forms, step = [], _Descent._step

    def stops(self):
        forms.append(self.settings.form)
        if len(forms) == 2:
            raise StoppedError
        step(self)

    monkeypatch.setattr(_Descent, "_step", stops)
    with pytest.raises(StoppedError):
        calibrate(runs=tmp_path)
    assert forms == ["constant", "pairs"]
    again = calibrate(runs=tmp_path)
    assert forms[2:4] == ["pairs", "query"]  # the first rung is read
    assert again.digest == whole.digest
    assert [row["loss"] for row in again.made["ladder"]["rungs"]] == [
        row["loss"] for row in whole.made["ladder"]["rungs"]
    ]
    count = len(forms)
    assert calibrate(runs=tmp_path).digest == whole.digest
    assert len(forms) == count
    assert len(list(tmp_path.glob("calibrate/*/edge.safetensors"))) == len(again.made["ladder"]["rungs"])
    assert not list(tmp_path.rglob("state.safetensors"))


def test_the_edge_and_its_card_tell_of_the_climb(tmp_path: Path):
    edge = calibrate(target=100.0)
    edge.save(tmp_path / "edge")
    read = strop.Edge.load(tmp_path / "edge")
    assert read.made["ladder"] == edge.made["ladder"]
    assert edge.made["ladder"]["target"] == 100.0
    first, rung, kept = describe_ladder(read)
    assert first.startswith("untouched: ")
    assert rung.startswith("constant: ")
    assert "16 numbers" in rung
    assert kept.startswith("Kept: constant.")
    assert f"- {rung}" in make_card(read)
    assert describe_ladder(tiny.edge()) == []


def test_a_target_belongs_to_a_climb():
    with pytest.raises(ArgumentError, match=r"target must be left out unless the form is auto, got 0\.3"):
        calibrate(form="constant", target=0.3)
