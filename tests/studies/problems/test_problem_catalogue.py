import hashlib

import pytest
import torch
from torch import Generator

from strop.studies.problems import ALL_TASKS, IGNORE, find_problem

GOLDEN = {
    "max_retrieval": "f99e22ffefa3dfb6",
    "max_retrieval_close": "c1833008bb0b71ec",
    "top_k_class": "c7ebc51b5f592675",
    "needle": "dbe93e471f53e532",
    "average": "34246b1bb5ce711a",
    "count": "a5205101d42a1549",
    "recall": "c82c7f20a3ef171a",
    "flipflop": "b1da73580a86ddf3",
    "copy": "3275b762b40f9cf5",
    "reverse": "758f588c8059af74",
    "sort": "9c808dcd78d58217",
}
"""sha256 of inputs, query and target of 16 problems of size 7 from seed 7, the first 16 digits."""


def drawn(name, count=16, size=7, seed=7, split="train"):
    return ALL_TASKS[name].sample(count, size, Generator().manual_seed(seed), split)


def test_every_task_has_a_golden_hash():
    assert set(GOLDEN) == set(ALL_TASKS)


@pytest.mark.parametrize("name", ALL_TASKS)
def test_the_same_seed_gives_the_same_bytes(name):
    problems = drawn(name)
    parts = (problems.inputs, problems.query, problems.target)
    data = b"".join(part.numpy().tobytes() for part in parts if part is not None)
    assert hashlib.sha256(data).hexdigest()[:16] == GOLDEN[name]


@pytest.mark.parametrize("name", ALL_TASKS)
def test_the_solver_is_right_at_every_size_and_split(name):
    task = ALL_TASKS[name]
    low, high = task.train_sizes
    sizes = {task.smallest, *range(low, high + 1), 37, *task.test_sizes}
    for size in sorted(sizes):
        for split in ("train", *task.splits):
            problems = drawn(name, count=4 if size > 1000 else 32, size=size, seed=size, split=split)
            blind = type(problems)(problems.inputs, problems.query, torch.zeros(0), problems.size)
            assert torch.equal(task.solve(blind), problems.target)


@pytest.mark.parametrize("name", ALL_TASKS)
def test_shapes_are_those_that_the_task_says(name):
    task = ALL_TASKS[name]
    for size in (task.smallest, 9):
        problems = drawn(name, count=3, size=size)
        assert problems.size == size
        if task.kind == "set":
            assert problems.inputs.shape == (3, task.length(size), task.features)
            assert problems.query.shape == (3, task.query_features)
            assert problems.target.shape == (3,)
            assert problems.inputs.dtype == problems.query.dtype == torch.float32
        else:
            assert problems.inputs.shape == problems.target.shape == (3, task.length(size))
            assert problems.query is None
            assert problems.inputs.dtype == torch.int64
            assert (problems.target != IGNORE).any(1).all()
            assert problems.inputs.max() < task.vocabulary
        assert problems.target.dtype == torch.int64
        assert problems.target.max() < task.classes


@pytest.mark.parametrize("name", ALL_TASKS)
def test_global_randomness_is_neither_used_nor_changed(name):
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    drawn(name)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", [name for name in ALL_TASKS if ALL_TASKS[name].kind == "sequence"])
def test_an_answer_follows_where_it_was_asked(name):
    """Teacher forcing: the next token is the answer, except that the last answer need not be shown."""
    problems = drawn(name, count=8, size=12)
    following, target = problems.inputs[:, 1:], problems.target[:, :-1]
    asked = target != IGNORE
    assert torch.equal(following[asked], target[asked])


def test_names_and_settings_are_checked():
    assert find_problem("recall") is ALL_TASKS["recall"]
    assert find_problem("recall", keys=64).vocabulary == 80
    with pytest.raises(ValueError, match="Did you mean 'recall'"):
        find_problem("recal")
    with pytest.raises(ValueError, match=r"setting of recall must be known, got 'key'\. Did you mean 'keys'"):
        find_problem("recall", key=3)
    with pytest.raises(ValueError, match="keys must be at least 1, got 0"):
        find_problem("recall", keys=0)


def test_wrong_asks_are_refused():
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        drawn("average", count=0)
    with pytest.raises(ValueError, match="size of average must be at least 1, got 0"):
        drawn("average", size=0)
    with pytest.raises(ValueError, match="size of recall must be at most 512, got 513"):
        drawn("recall", size=513)
    with pytest.raises(ValueError, match=r"split must be known, got 'tests'\. Did you mean 'test'"):
        drawn("average", split="tests")


def test_close_items_are_close_in_training_alone():
    task, plain = ALL_TASKS["max_retrieval_close"], ALL_TASKS["max_retrieval"]
    values = drawn("max_retrieval_close", count=2000, size=16).inputs[..., 0].double()
    gaps = 1 - values.min(1).values  # 2^-k times a number near 1
    assert gaps.max() > 0.5
    assert gaps.min() < 2.0 ** -(task.halvings - 1)
    assert 0.5 < (gaps.log2().round() == 0).double().mean() < 0.6
    tested, same = (t.sample(8, 64, Generator().manual_seed(3), "test") for t in (task, plain))
    assert torch.equal(tested.inputs, same.inputs)
    assert torch.equal(tested.target, same.target)
