"""Sizes that suit a model: around the first that fails; a model that does not fail needs no edge."""

import pytest
import tiny

import strop
from strop.calibration.settings import Recipe
from strop.calibration.sizes import choose_sizes
from strop.errors import NothingToMendError
from strop.tasks.sizes import FailingSize

SMALL = {"steps": 1, "every": 1, "lengths": (32,), "windows": 1, "guard": (), "runs": None}


@pytest.mark.parametrize(
    ("fails", "sizes", "judged"),
    [(4, (8, 24), (24, 96)), (64, (16, 64), (64, 256)), (256, (64, 256), (256,))],
)
def test_sizes_lie_below_the_first_that_fails(fails, sizes, judged):
    found = choose_sizes(Recipe(task="lookup-nouns"), FailingSize(fails, {fails: 0.5}))
    expected = judged if fails < 64 else judged[:1]  # there are no more nouns to stop by
    assert (found.sizes, found.judged) == (sizes, expected)
    assert choose_sizes(Recipe(task="lookup"), FailingSize(64, {64: 0.5})).judged == (64, 256)
    assert choose_sizes(Recipe(judged=(7,)), FailingSize(4, {4: 0.5})).judged == (7,)


def test_a_model_that_does_not_fail_needs_no_edge():
    with pytest.raises(
        NothingToMendError, match=r"got 96% right or more up to size 32, the largest .* No edge is needed"
    ):
        choose_sizes(Recipe(), FailingSize(None, {4: 1.0, 32: 0.96}))


def test_calibrate_finds_its_sizes_unless_told():
    model = tiny.model(max_position_embeddings=4096)
    edge = strop.calibrate(model, tiny.tokeniser(), "recall", **SMALL)
    assert edge.made["recipe"]["sizes"] == (8, 24)
    assert edge.made["recipe"]["judged"] == (24, 96)
    edge = strop.calibrate(model, tiny.tokeniser(), "recall", sizes=(2, 3), **SMALL)
    assert (edge.made["recipe"]["sizes"], edge.made["recipe"]["judged"]) == ((2, 3), ())


def test_no_prompt_to_stop_by_is_beyond_the_models_positions():
    edge = strop.calibrate(tiny.model("gpt2", n_positions=1024), tiny.tokeniser(), "recall", **SMALL, echoes=0)
    assert (edge.made["recipe"]["sizes"], edge.made["recipe"]["judged"]) == ((8, 24), (24,))
