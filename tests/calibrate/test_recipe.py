import pytest
from calibrate import tiny

from strop.calibrate.recipe import Recipe
from strop.tasks.catalogue import task_named
from strop.tasks.passages import seen


@pytest.mark.parametrize("task", ["recall", "counting"])
def test_every_phrasing_is_validated_by_as_many_questions(task):
    batches = Recipe(task=task, sizes=(8, 9), questions=6).validation(tiny.model(), tiny.reader())
    asked = [sum(len(passage.ids) for passage in batch.passages) for batch in batches]
    assert asked == [6] * len(seen(task_named(task)))


def test_prose_has_every_length_in_turn_and_no_window_of_two_splits():
    recipe, reader = Recipe(lengths=(20, 50), windows=3), tiny.reader()
    parts = {split: recipe.prose_windows(reader, split) for split in ("train", "validation")}
    for windows in parts.values():
        assert [ids.shape[1] for ids in windows] == [20, 50] * 3
    texts = {split: {tuple(ids[0].tolist()) for ids in windows} for split, windows in parts.items()}
    assert not texts["train"] & texts["validation"]


def test_texts_as_they_are_and_echoes_take_turns():
    batches = Recipe(task="text", trusted=16).batches(tiny.model(), tiny.reader(), 5)
    assert [len(batch.short) for batch in batches] == [8, 4, 8, 4, 8]


def test_prose_is_not_counted_twice():
    with pytest.raises(ValueError, match="lengths must not repeat, got 64 more than once"):
        Recipe(lengths=(64, 64))
