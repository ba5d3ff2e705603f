import hashlib

import pytest
import torch
from torch import Generator

from strop.studies.problems.max_retrieval import MaxRetrieval


def test_the_data_of_a_seed_never_change():
    batch = MaxRetrieval().sample(64, 37, Generator().manual_seed(7))
    parts = (batch.values, batch.classes, batch.query, batch.target)
    digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()
    assert digest == "8534ea7ca70a06fc4266b93c9cb272cf70b7f69128b7149deee0ee3a996bd8fe"


def test_the_target_is_the_class_of_the_largest_value():
    batch = MaxRetrieval(classes=3, features=4).sample(50, 9, Generator().manual_seed(0))
    for values, classes, target in zip(
        batch.values.tolist(), batch.classes.tolist(), batch.target.tolist(), strict=True
    ):
        assert classes[values.index(max(values))] == target


def test_global_randomness_is_neither_used_nor_changed():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    MaxRetrieval().sample(4, 4, Generator().manual_seed(1))
    assert torch.equal(before, torch.random.get_rng_state())


def test_items_hold_the_value_then_the_class_then_padding():
    task = MaxRetrieval(classes=3, features=6)
    items = task.items(torch.tensor([[0.25, 0.5]]), torch.tensor([[2, 0]]))
    assert items.tolist() == [[[0.25, 0, 0, 1, 0, 0], [0.5, 1, 0, 0, 0, 0]]]


def test_one_item_is_a_set():
    batch = MaxRetrieval().sample(5, 1, Generator().manual_seed(0))
    assert torch.equal(batch.target, batch.classes[:, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaxRetrieval(classes=0), "classes must be at least 1, got 0"),
        (lambda: MaxRetrieval(classes=11), r"features must be at least classes \+ 1 = 12, got 11"),
        (lambda: MaxRetrieval().sample(4, 0, Generator()), "size must be at least 1, got 0"),
        (lambda: MaxRetrieval().sample(0, 4, Generator()), "sets must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
