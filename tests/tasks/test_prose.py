"""Ordinary prose in three parts, cut to lengths that a model can read."""

import warnings
from pathlib import Path

import pytest
import tiny

from strop.errors import StropWarning
from strop.tasks.prose import SPLITS, fit_lengths, read_prose


def test_prose_has_three_parts_without_a_paragraph_in_common(tmp_path: Path):
    parts = [set(read_prose(split).split("\n\n")) for split in SPLITS]
    assert all(sum(map(len, part)) > 20_000 for part in parts)
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    path = tmp_path / "own.txt"
    path.write_text("abcdef")
    assert [read_prose(split, str(path)) for split in SPLITS] == ["ab", "cd", "ef"]


def test_lengths_beyond_the_models_positions_are_left_out_with_a_word():
    model = tiny.model(max_position_embeddings=64)
    with warnings.catch_warnings(action="error"):
        assert fit_lengths((32, 64), model) == (32, 64)
    with pytest.warns(StropWarning, match="The model has 64 positions: prose is read at 32 tokens"):
        assert fit_lengths((32, 256), model) == (32,)
    with pytest.warns(StropWarning, match="The model has 64 positions: prose is read at 64 tokens"):
        assert fit_lengths((256, 1024), model) == (64,)
