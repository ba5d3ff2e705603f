"""The numbers that are moved: gradients reach them through the frozen model."""

import families
import pytest
import tiny
import torch

from strop.calibration.numbers import Numbers
from strop.calibration.objective import Answers, Drift
from strop.edges.query_edits import USUAL
from strop.patching.identity import heads_of
from strop.tasks.passages import Passage

QUESTIONS = (("The code of oak is", " 41"), ("The code of fir is", " 73"))
PASSAGE = Passage("The code of oak is 41. The code of fir is 73. ", QUESTIONS)
BATCH = Answers([tiny.reader().encode(PASSAGE)])


@pytest.mark.parametrize(
    "form", ["constant", "layer", "log-n", "power-n", "polynomial", "none", "pairs", "query+log-n"]
)
def test_gradients_through_the_frozen_model_meet_finite_differences(form):
    model = tiny.model().double()
    numbers = Numbers(model, form, outputs=True).double()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in numbers.parameters():
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    drift = Drift(model, tiny.prose(1, 25))

    def value():
        with numbers.on(model):
            return BATCH.loss(model) + 3.0 * drift.of(model, 0)

    value().backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    for parameter in numbers.parameters():
        if parameter.numel() == 0:
            continue
        place, step = tuple(0 for _ in parameter.shape), 1e-3
        found = float(parameter.grad[place])
        with torch.no_grad():
            parameter[place] += step
            above = float(value())
            parameter[place] -= 2 * step
            below = float(value())
            parameter[place] += step
        # losses are float32 at the end, so that differences are known to about 3e-4
        assert found == pytest.approx((above - below) / (2 * step), abs=1e-3, rel=2e-2)


def test_what_is_added_to_a_projection_is_held_against_its_rows():
    model = tiny.model()
    numbers = Numbers(model, "query+constant", outputs=True, rank=2)
    named = dict(zip([name for name, _ in numbers.held.named_parameters()], numbers.lengths, strict=True))
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= 3.0
    later = dict(zip(named, Numbers(model, "query+constant", outputs=True, rank=2).lengths, strict=True))
    ups = [name for name in named if name.endswith("up")]
    assert len(ups) == len(model.model.layers)
    assert {name: later[name] / named[name] for name in named} == pytest.approx(
        {name: 3.0 if name in ups else 1.0 for name in named}
    )


OTHERS = {
    "gpt2": lambda attention: attention.c_attn.weight[:, :32].T,
    "phi3": lambda attention: attention.qkv_proj.weight[:32],
    "gpt_neox": lambda attention: attention.query_key_value.weight.reshape(4, 3, 8, 32)[:, 0].reshape(32, 32),
}
"""The rows that make queries where one layer makes queries, keys and values."""


@pytest.mark.parametrize("family", OTHERS)
def test_rows_are_those_of_the_query_where_a_layer_makes_more(family):
    model = families.fresh(family)
    attention = dict(model.named_modules())[next(iter(heads_of(model)))]
    found = Numbers(model, "query", outputs=False, rank=2).lengths[0]
    rows = OTHERS[family](attention).detach()
    assert found == pytest.approx(float(rows.norm() / len(rows) ** 0.5) / USUAL)
