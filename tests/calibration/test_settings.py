"""Settings and recipes that make no sense are refused where they are made."""

import pytest

from strop.calibration.settings import Recipe, Settings


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match=r"Did you mean .constant."):
        Settings(form="constnat")
    with pytest.raises(ValueError, match="budget must be a finite number greater than 0"):
        Settings(budget=0)
    with pytest.raises(ValueError, match="form must have numbers to learn"):
        Settings(form="none", outputs=False)


def test_a_task_does_not_guard_itself():
    with pytest.raises(ValueError, match="guard must name other tasks"):
        Recipe(task="recall", guard=("recall",))


def test_prose_is_not_counted_twice():
    with pytest.raises(ValueError, match="lengths must not repeat, got 64 more than once"):
        Recipe(lengths=(64, 64))


def test_sizes_to_stop_by_and_echoes_make_sense():
    with pytest.raises(ValueError, match="judged must be sizes of at least 1"):
        Recipe(judged=(4, 0))
    with pytest.raises(ValueError, match="judged must not repeat"):
        Recipe(judged=(4, 4))
    with pytest.raises(ValueError, match="echoes must be a share of 0 to 100"):
        Recipe(echoes=101)
