"""Who takes part in the arena, and how a name becomes a normaliser.

    softmax                 trained and tested with softmax
    top_k(k=4)              a normaliser of `strop.normalisers` with a setting of its own
    softmax>adaptive        trained with the first, tested with the second: a remedy for models as they are
    adaptive                a bare name that `ALIASES` gives a meaning in the arena, or any normaliser's name

A normaliser that is learned per head, or scaled by the trained length, is told heads, head size and length.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strop._checks import require, require_known
from strop.errors import ArgumentError

if TYPE_CHECKING:
    from strop.normalisers import Normaliser
    from strop.studies.problems import Task

ALIASES = {
    "adaptive": "softmax>adaptive",
    "hard": "softmax>hard",
    "average_hard": "softmax>average_hard",
    "yarn": "softmax>yarn",
    "top_k": "top_k(k=4)",
}
"""What is meant for models trained with softmax, or is a no-op at training sizes as the library's default has it."""

OWN_SETTING = ("top_k",)
"""Aliases that stand for one normaliser, so that they hold on either side of > as well."""


@dataclass(frozen=True)
class Entry:
    """One entrant: its name on the board, the normaliser it is trained with and the one it is tested with."""

    name: str
    trained: str
    tested: str

    @classmethod
    def of(cls, text: str) -> Entry:
        """Read an entrant; unknown names and settings are refused here, before any run."""
        name = re.sub(r"\s+", "", text)
        trained, _, tested = ALIASES.get(name, name).partition(">")
        if ">" in name:  # within a pair a name is a normaliser, but for one whose default does nothing here
            trained, tested = (ALIASES[part] if part in OWN_SETTING else part for part in (trained, tested))
        entry = cls(name, trained, tested or trained)
        for spec in (entry.trained, entry.tested):
            build_normaliser(spec, Place(heads=2, head_dim=8, length=16))
        return entry


@dataclass(frozen=True)
class Place:
    """Where a normaliser stands: what the constructors of learned ones ask for."""

    heads: int
    head_dim: int
    length: int

    def arguments(self) -> dict[str, int]:
        """Constructor arguments by name."""
        return {
            "heads": self.heads,
            "head_dim": self.head_dim,
            "trained_length": self.length,
        }


def split_names(text: str) -> tuple[str, ...]:
    """Names between commas; commas within parentheses belong to a name's settings."""
    return tuple(part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip())


def build_normaliser(spec: str, place: Place) -> Normaliser:
    """Make the normaliser that a spec such as top_k(k=4) names, for its place."""
    found = re.fullmatch(r"(\w+)(?:\((.*)\))?", spec)
    if found is None:
        raise ArgumentError(f"normaliser must be a name or name(setting=value), got {spec!r}. For example top_k(k=4).")
    from strop.normalisers import NAMES, by_name

    name, settings = found[1], _read_settings(found[2] or "", spec)
    require_known("normaliser", name, NAMES)
    asked = inspect.signature(NAMES[name]).parameters
    known = {key: value for key, value in place.arguments().items() if key in asked}
    unknown = sorted(set(settings) - set(asked))
    require(not unknown, f"settings of {name} must be among {', '.join(asked) or 'none'}", ", ".join(unknown))
    return by_name(name, **{**known, **settings})


def find_misfit(entry: Entry, task: Task, positions: str) -> str | None:
    """Say why an entrant cannot take part in a task; None when it can."""
    for spec in (entry.trained, entry.tested):
        rule = build_normaliser(spec, Place(heads=2, head_dim=8, length=16))
        if task.kind == "set" and not rule.rowwise:
            return f"{spec} mixes rows or heads, and a set has one row and one head"
        if task.kind == "sequence" and positions == "alibi" and not rule.additive:
            return f"{spec} has no logits to which ALiBi could add"
    return None


def _read_settings(text: str, spec: str) -> dict[str, object]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ArgumentError(text)
        return {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError) as error:
        example = "For example top_k(k=4)"
        raise ArgumentError(f"settings must be name=value between commas, got {spec!r}. {example}.") from error
