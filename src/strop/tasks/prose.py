"""Ordinary prose, to see that a model still reads as it did: English that lies on every machine with Python.

It is the language reference that comes with the interpreter (`pydoc_data.topics`, what `help("CONTEXTMANAGERS")`
prints), in three parts by topic that never mix: one to calibrate on, one to stop by, one to test on. Its words change
with Python's version, so a checksum is kept with every result. A user's own text may stand in its place; it is then cut
into thirds.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.errors import ArgumentError, StropWarning
from strop.pretrained.load import count_positions, go_beyond
from strop.records import read_utf8
from strop.tasks.answers import Reader

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def read_prose(split: Split, path: str | None = None) -> str:
    """Return one part of the text."""
    return _topics(split) if path is None else _thirds(Path(path))[SPLITS.index(split)]


def cut_windows(reader: Reader, text: str, length: int, count: int, apart: bool = False) -> Tensor:
    """Return [count, length] tokens, begun at evenly spaced places, with the first token that the model wants.

    `apart` are as many of them as the text holds without two that share a token.
    """
    body = reader.tokens(text)
    room = length - len(reader.before)
    remedy = "Give a longer text or a smaller length"
    require(len(body) >= room > 0, f"the text must hold at least {room:,} tokens", f"{len(body):,}", remedy)
    count = min(count, len(body) // room) if apart else count
    starts = [int(start) for start in torch.linspace(0, len(body) - room, count)]
    return torch.tensor([reader.before + body[start : start + room] for start in starts], device=reader.device)


def fit_lengths(lengths: Sequence[int], model: nn.Module, beyond: bool = False) -> tuple[int, ...]:
    """Return the lengths that the model has positions for, or the most it has, and warn where that changes them.

    With `beyond` they stay as they are, with a warning of another kind.
    """
    if beyond:
        go_beyond(lengths, model)
        return tuple(lengths)
    most = count_positions(model) or max(lengths)
    found = tuple(n for n in lengths if n <= most) or (most,)
    if found != tuple(lengths):
        read = ", ".join(map(str, found))
        words = f"The model has {most:,} positions: prose is read at {read} tokens. With --beyond it is read at all."
        warnings.warn(words, StropWarning, stacklevel=3)
    return found


def checksum(text: str) -> str:
    """Return the first 16 digits of the text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _topics(split: Split) -> str:
    from pydoc_data.topics import topics

    names = sorted(topics)
    earlier: set[str] = set()  # topics quote each other: a paragraph belongs to the first part that has it
    for i, part in enumerate(SPLITS):
        own = dict.fromkeys(paragraph for name in names[i :: len(SPLITS)] for paragraph in _paragraphs(topics[name]))
        if part == split:
            return "\n\n".join(paragraph for paragraph in own if paragraph not in earlier)
        earlier |= own.keys()
    raise ArgumentError(f"split must be one of {', '.join(SPLITS)}, got {split!r}.")


def _paragraphs(topic: str) -> list[str]:
    """Running paragraphs only: headings, rules, grammar and code, which stand indented, are left out."""
    parts = [part for part in re.split(r"\n\s*\n", topic) if part[:1].isalpha() and part.rstrip().endswith(".")]
    return [" ".join(part.split()) for part in parts if len(part) > 200]


def _thirds(path: Path) -> tuple[str, str, str]:
    text = read_utf8(path)
    third = len(text) // 3
    require(third > 0, f"{path} must hold words", "an empty file")
    return text[:third], text[third : 2 * third], text[2 * third :]
