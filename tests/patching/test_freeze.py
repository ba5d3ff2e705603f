"""A user's model is measured without dropout and without gradients, and is as it was afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from strop.patching.freeze import freeze


def mixed() -> nn.Sequential:
    """One part trains, one is frozen, one is frozen in training mode."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4))
    model[1].eval()
    model[2].requires_grad_(False)
    return model


def flags(model: nn.Module) -> tuple[list[bool], list[bool]]:
    return [parameter.requires_grad for parameter in model.parameters()], [part.training for part in model.modules()]


def test_inside_nothing_trains_and_outside_all_is_as_it_was() -> None:
    model = mixed()
    before = flags(model)
    assert before == ([True, True, False, False], [True, True, False, True])
    with freeze(model):
        assert flags(model) == ([False] * 4, [False] * 4)
        x = torch.ones(1, 4)
        assert torch.equal(model(x), model(x))
        assert not model(x).requires_grad
    assert flags(model) == before


def test_an_error_inside_leaves_it_as_it_was_too() -> None:
    model = mixed()
    before = flags(model)

    def use() -> None:
        with freeze(model):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert flags(model) == before
