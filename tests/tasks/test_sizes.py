"""Where a model begins to fail: sizes are doubled until it does, or until nothing fits."""

import pytest
import tiny

from strop.tasks import sizes
from strop.tasks.sizes import draw_prompts, find_failure

READER = tiny.reader()


def find(monkeypatch: pytest.MonkeyPatch, right: dict[int, float], task: str = "recall", longest: int = 900):
    """Find the failure of a model that answers this share at each size; what is not said it answers."""
    asked: list[int] = []

    def measure(model, passages):
        asked.append(len(passages))
        return right.get(4 << (len(asked) - 1), 1.0)

    monkeypatch.setattr(sizes, "measure_accuracy", measure)
    told: list[int] = []
    found = find_failure(None, READER, task, ("code",), "validation", longest=longest, told=told.append)
    assert list(found.tried) == told
    return found


def test_the_first_size_below_95_in_100_fails(monkeypatch: pytest.MonkeyPatch):
    found = find(monkeypatch, {4: 1.0, 8: 0.95, 16: 0.94, 32: 0.0})
    assert found.size == 16
    assert found.tried == {4: 1.0, 8: 0.95, 16: 0.94}


def test_a_model_that_does_not_fail_within_its_context(monkeypatch: pytest.MonkeyPatch):
    found = find(monkeypatch, {})
    assert (found.size, found.largest) == (None, 32)  # a pair is some 26 characters
    assert find(monkeypatch, {}, longest=1).largest == 4  # the smallest size is tried in any case


def test_a_task_that_has_no_larger_size_ends():
    assert draw_prompts("lookup-nouns", 4096, ("ticket",), "test", 0, 8) is None


def test_prompts_are_of_the_split_and_as_many_as_asked():
    drawn = draw_prompts("recall", 4, ("code", "room"), "validation", 0, 30)
    assert drawn is not None
    assert sum(len(one.questions) for one in drawn) == 32  # passages of four questions
    assert [one.phrasing for one in drawn[:2]] == ["code", "room"]
    assert draw_prompts("recall", 4, ("code",), "test", 0, 4) != draw_prompts(
        "recall", 4, ("code",), "validation", 0, 4
    )


def test_a_real_model_is_asked():
    found = find_failure(tiny.model(), READER, "recall", ("code",), "validation", prompts=4)
    assert found.size == 4
    assert found.tried[4] < 0.5
