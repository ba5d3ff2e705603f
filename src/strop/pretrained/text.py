"""Tokens of a wanted length. The default text is source code, as the paper's own measurement of spreads was.

It is the source of Python's standard library modules in TEXT, read from the installation: natural, long
enough for 64,000 tokens, and on every machine. Its SHA-256 is recorded, since it changes with Python's
version.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop._checks import require
from strop.records import read_utf8

if TYPE_CHECKING:
    from torch import Tensor

TEXT = ("argparse", "typing", "inspect", "tarfile", "subprocess", "zipfile")


@dataclass(frozen=True)
class Text:
    """A text, where it is from and its checksum."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """Checksum of the text in UTF-8."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def default_text() -> Text:
    """Return the source of a few standard library modules."""
    places = [importlib.util.find_spec(name) for name in TEXT]
    files = [Path(str(place.origin)) for place in places if place is not None]
    return Text("source of Python's " + ", ".join(TEXT), "\n".join(file.read_text(encoding="utf-8") for file in files))


def read_text(path: Path) -> Text:
    """Read a user's text."""
    text = read_utf8(path)
    require(bool(text.strip()), "text must hold words", f"an empty file, {path}")
    return Text(path.name, text)


def cut_lengths(tokeniser: Any, text: Text, lengths: Sequence[int], samples: int) -> dict[int, Tensor]:
    """Return [samples, n] tokens for each length, begun at evenly spaced places, with the model's special tokens."""
    import torch

    body = tokeniser(text.text, add_special_tokens=False, verbose=False)["input_ids"]
    before, after = _find_special(tokeniser)
    room = max(lengths) - len(before) - len(after)
    require(min(lengths) > len(before) + len(after), "lengths must leave room for text", min(lengths))
    remedy = "Give a longer text or smaller lengths"
    require(len(body) >= room, f"text must hold at least {room:,} tokens", f"{len(body):,}", remedy)
    starts = [int(start) for start in torch.linspace(0, len(body) - room, samples)]
    return {
        n: torch.tensor([before + body[start : start + n - len(before) - len(after)] + after for start in starts])
        for n in lengths
    }


def _find_special(tokeniser: Any) -> tuple[list[int], list[int]]:
    """The tokens that this tokeniser puts before and after a text."""
    plain = tokeniser("a", add_special_tokens=False)["input_ids"]
    whole = tokeniser("a")["input_ids"]
    starts = [i for i in range(len(whole)) if whole[i : i + len(plain)] == plain]
    return (whole[: starts[0]], whole[starts[0] + len(plain) :]) if starts else ([], [])
