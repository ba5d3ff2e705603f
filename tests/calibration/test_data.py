"""What a calibration is fed: batches, validation, guard and prose, all from a recipe's seed."""

import pytest
import tiny
import torch

from strop.calibration.data import GUARDED, Data
from strop.calibration.objective import Answers, Leads
from strop.calibration.settings import GUARD, Recipe
from strop.calibration.verb import _choose_guard
from strop.tasks.catalogue import TASKS, find_task, generator_of
from strop.tasks.passages import sample

READER = tiny.reader()


@pytest.mark.parametrize("task", ["recall", "counting"])
def test_every_phrasing_is_validated_by_as_many_questions(task):
    batches = Data(Recipe(task=task, sizes=(8, 9), questions=6)).validation(tiny.model(), READER)
    asked = [sum(len(passage.ids) for passage in batch.passages) for batch in batches]
    assert asked == [6] * len(find_task(task).open_phrasings)


def test_validation_may_be_of_larger_sizes_and_other_phrasings():
    task = find_task("lookup")
    recipe = Recipe(task="lookup", sizes=(2, 3), judged=(3, 12), questions=2)
    batches = Data(recipe).validation(tiny.model(), READER)
    draw = generator_of("validation", 0)
    wanted = [sample(task, 1, size, [name], draw, 2)[0] for size in (3, 12) for name in task.stopping]
    for batch, passage in zip(batches, wanted, strict=True):
        assert torch.equal(batch.passages[0].context, READER.encode(passage).context)
    learned = Data(recipe)._learned(40)
    assert {passage.phrasing for passage in learned} == set(task.open_phrasings)
    assert {passage.size for passage in learned} == {2, 3}
    with pytest.raises(ValueError, match="phrasings must not be held out for testing or for stopping, got shelf"):
        Data(Recipe(task="lookup", phrasings=("shelf",)))._learned(1)


def test_echoes_take_the_place_of_their_share_of_the_steps():
    def kinds(share, steps):
        batches = Data(Recipe(trusted=16, echoes=share, questions=1)).batches(tiny.model(), READER, steps)
        return "".join("a" if isinstance(batch, Answers) else "e" for batch in batches)

    assert kinds(25, 8) == "aaaeaaae"
    assert kinds(40, 5) == "aaeae"
    assert kinds(10, 5) == "aaaaa"
    assert kinds(0, 2) == "aa"
    assert kinds(100, 2) == "ee"


def test_prose_mixes_its_lengths_evenly_and_no_window_is_in_two_splits():
    data = Data(Recipe(lengths=(20, 40), windows=12))
    parts = {split: data.prose(READER, split) for split in ("train", "validation")}
    lengths = {split: [ids.shape[1] for ids in windows] for split, windows in parts.items()}
    assert lengths["train"] == [20, 40, 20] * 6  # as many tokens of each
    assert sorted(lengths["validation"]) == [20] * 4 + [40] * 3  # a third, and three at least
    assert [ids.shape[1] for ids in Data(Recipe(lengths=(20, 40), windows=1)).prose(READER, "train")] == [20, 40]
    texts = {split: {tuple(ids[0].tolist()) for ids in windows} for split, windows in parts.items()}
    assert not texts["train"] & texts["validation"]


def test_texts_as_they_are_and_echoes_take_turns():
    batches = Data(Recipe(task="text", trusted=16)).batches(tiny.model(), READER, 5)
    assert [len(batch.short) for batch in batches] == [8, 4, 8, 4, 8]


def test_guarded_passages_are_few_short_and_of_the_right_split():
    guard = _choose_guard(None, "recall")
    assert guard == GUARD[1:]
    learned, validated = Data(Recipe(sizes=(2, 5), questions=3, guard=guard)).guard(READER)
    assert [len(groups) for groups in learned] == [GUARDED] * 5
    assert len(validated) == 5
    learned = [group for groups in learned for group in groups]
    phrasings = [len(TASKS[name].open_phrasings) for name in guard]
    assert [least <= len(group) for least, group in zip(phrasings, validated, strict=True)] == [True] * 5
    lengths = [[batch.passages[0].context.numel() for batch in group] for group in learned]
    assert max(sum(group[:-1]) for group in lengths) < 200  # the last passage may go beyond
    assert max(map(len, lengths)) == 3
    assert Data(Recipe()).guard(READER) == ([], [])
    (group,) = Data(Recipe(sizes=(400, 600), guard=("variables",), questions=1)).guard(READER)[1]
    assert max(batch.passages[0].context.numel() for batch in group) < 1000  # of 24 at most, whatever the task's size
    task = TASKS["maximum"]
    (first,) = sample(task, 1, 5, task.open_phrasings[:1], generator_of("validation", 0), 3)
    assert torch.equal(validated[0][0].passages[0].context, READER.encode(first).context)


def test_without_a_word_every_other_task_is_guarded_and_a_new_one_changes_nothing():
    assert GUARD == ("recall", "maximum", "passkey", "variables", "counting", "chains")
    assert set(GUARD) <= set(TASKS)
    assert _choose_guard(None, "text") == _choose_guard(None, "jsonl") == GUARD
    assert _choose_guard((), "recall") == ()
    assert _choose_guard(["counting"], "recall") == ("counting",)
    with pytest.raises(ValueError, match=r"task must be known, got 'countng'\. Did you mean 'counting'"):
        _choose_guard(["countng"], "recall")


def test_the_guard_watches_leads_where_asked():
    for leads, kind in ((False, Answers), (True, Leads)):
        recipe = Recipe(sizes=(2, 3), questions=2, guard=("counting",), guard_leads=leads)
        (learned,), validated = Data(recipe).guard(READER)
        assert {type(batch) for group in (*learned, *validated) for batch in group} == {kind}
