"""The text that a probe reads, cut to wanted lengths with the tokens that a model wants around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from strop.pretrained.text import Text, cut_lengths, default_text, read_text


class Words:
    """A tokeniser of one token a word, with tokens of its own before and after a text."""

    def __init__(self, before: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> None:
        self.before, self.after = before, after

    def __call__(self, text: str, add_special_tokens: bool = True, verbose: bool = True) -> dict[str, list[int]]:
        body = [10 + i for i, _ in enumerate(text.split())]
        return {"input_ids": [*self.before, *body, *self.after] if add_special_tokens else body}


def test_windows_carry_the_models_special_tokens() -> None:
    text, both = Text("x", " ".join("a" * 20)), Words((1,), (2,))
    made = cut_lengths(both, text, (8, 16), samples=2)
    assert made[8].tolist() == [[1, *range(10, 16), 2], [1, *range(16, 22), 2]]
    assert made[16].shape == (2, 16)
    assert cut_lengths(Words((7,)), text, (8,), samples=1)[8].tolist() == [[7, *range(10, 17)]]
    assert cut_lengths(Words(), text, (8,), samples=1)[8].tolist() == [[*range(10, 18)]]
    with pytest.raises(ValueError, match=r"text must hold at least 30 tokens, got 20. Give a longer text"):
        cut_lengths(both, text, (32,), samples=1)
    with pytest.raises(ValueError, match=r"lengths must leave room for text, got 2"):
        cut_lengths(both, text, (2, 8), samples=1)


def test_the_default_text_is_long_and_says_what_it_is() -> None:
    text = default_text()
    assert len(text.text) > 400_000
    assert "argparse" in text.name
    assert len(text.sha256) == 64


def test_a_text_that_says_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(ValueError, match=r"text must hold words, got an empty file, .*empty\.txt"):
        read_text(tmp_path / "empty.txt")
