import pytest
import torch
from torch import Generator

from strop.studies.problems import IGNORE, find_problem
from strop.studies.problems.flipflop import READ, SKIP, WRITE


def drawn(name, count, size, split="train", **settings):
    return find_problem(name, **settings).sample(count, size, Generator().manual_seed(0), split)


@pytest.mark.parametrize("size", [1, 5, 12, 512])
def test_recall_asks_for_the_values_of_keys_that_were_shown(size):
    problems = drawn("recall", 10, size)
    for tokens, target in zip(problems.inputs.tolist(), problems.target.tolist(), strict=True):
        keys, values = tokens[0 : 2 * size : 2], tokens[1 : 2 * size : 2]
        assert len(set(keys)) == size
        assert max(keys) < 512 <= min(values)
        shown = dict(zip(keys, values, strict=True))
        asked = [place for place, answer in enumerate(target) if answer != IGNORE]
        assert asked == list(range(2 * size, 2 * size + 2 * min(size, 8), 2))
        assert len({tokens[place] for place in asked}) == len(asked)
        assert all(shown[tokens[place]] == target[place] for place in asked)


def test_every_key_and_value_occurs_in_training():
    assert len(drawn("recall", 512, 16).inputs.unique()) == 528


def test_keys_are_asked_in_any_order():
    tokens = drawn("recall", 400, 6).inputs
    first = (tokens[:, 0:12:2] == tokens[:, 12:13]).int().argmax(1)
    assert (first.bincount(minlength=6) > 40).all()


@pytest.mark.parametrize(("split", "ignored"), [("train", 0.8), ("test", 0.8), ("sparse", 0.98), ("dense", 0.1)])
def test_splits_of_flipflop_ignore_more_or_less(split, ignored):
    instructions = drawn("flipflop", 200, 102, split).inputs[:, 0::2]
    assert (instructions[:, 0] == WRITE).all()
    assert (instructions[:, -1] == READ).all()
    inner = instructions[:, 1:-1]
    for instruction, share in ((SKIP, ignored), (WRITE, (1 - ignored) / 2), (READ, (1 - ignored) / 2)):
        assert (inner == instruction).float().mean() == pytest.approx(share, abs=0.01)


def test_reads_repeat_the_last_write():
    problems = drawn("flipflop", 50, 30, "dense")
    for tokens, target in zip(problems.inputs.tolist(), problems.target.tolist(), strict=True):
        memory = None
        for place in range(0, 60, 2):
            instruction, bit = tokens[place : place + 2]
            memory = bit if instruction == WRITE else memory
            assert target[place] == (memory if instruction == READ else IGNORE)
            assert target[place + 1] == IGNORE
            assert instruction != READ or bit == memory


def test_ignored_bits_are_no_hint():
    tokens = drawn("flipflop", 400, 30, "sparse").inputs
    agree = tokens[:, 1:-2:2] == tokens[:, -1:]
    assert agree[:, 5:].float().mean() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("name", "change"),
    [("copy", list), ("reverse", lambda row: row[::-1]), ("sort", sorted)],
)
@pytest.mark.parametrize("size", [1, 2, 17])
def test_rewritten_symbols(name, change, size):
    problems = drawn(name, 20, size)
    symbols = find_problem(name).symbols
    for tokens, target in zip(problems.inputs.tolist(), problems.target.tolist(), strict=True):
        answer = change(tokens[:size])
        assert tokens[size:] == [symbols, *answer[:-1]]
        assert target == [IGNORE] * size + answer
        assert max(tokens[:size]) < symbols


def test_symbols_repeat():
    assert any(len(set(row)) < 17 for row in drawn("sort", 5, 17).inputs[:, :17].tolist())


@pytest.mark.parametrize("size", [4, 16, 256])
def test_saying_the_last_symbol_again_scores_as_chance_says(size):
    problems = drawn("sort", 2000, size)
    right = (problems.inputs == problems.target)[:, size:].float().mean()
    assert float(right) == pytest.approx(find_problem("sort").chance(size), abs=0.02)


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match=r"ignore must lie in \[0, 1\], got 1.5"):
        find_problem("flipflop", ignore=1.5)
    with pytest.raises(ValueError, match="symbols must be at least 1, got 0"):
        find_problem("copy", symbols=0)
    with pytest.raises(ValueError, match="values must be at least 1, got 0"):
        find_problem("recall", values=0)
    assert drawn("flipflop", 50, 102, ignore=0.0).inputs[:, 0::2].eq(SKIP).sum() == 0
    assert torch.equal(drawn("copy", 2, 3).inputs, drawn("copy", 2, 3, "test").inputs)
