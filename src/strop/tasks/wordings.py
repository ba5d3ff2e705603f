"""How a pair and the question for it are written; and wordings of no meaning, drawn anew for every passage.

    written    The code of {k} is {v}.            The code of {k} is
    drawn      while another {k} returned from {v}, ...   which module {k} returned from

A drawn wording has ordinary words around the key and before the value, and in every other one the question has
words of its own. Only the key says which value is asked for: there is nothing else to hold on to, and no wording to
learn by heart.
"""

from __future__ import annotations

from dataclasses import dataclass

from strop.tasks.passages import Draw
from strop.tasks.prose import Split
from strop.tasks.words import ORDINARY

ENDS = (". ", "\n", "; ", ", ", ".\n")
LINKS = (" ", " ", ": ", " = ", " -> ")


@dataclass(frozen=True)
class Wording:
    """How a pair and a question are written; {k} is the key and {v} the value; `split` says which nouns are keys."""

    pair: str
    question: str
    before: str = ""
    split: Split = "train"


def draw_wording(draw: Draw) -> Wording:
    """Draw a wording of words that say nothing."""
    first, middle, last = (_draw_words(draw, least, 3) for least in (0, 0, 0))
    link, end = draw.one(LINKS), draw.one(ENDS)
    pair = f"{first}{{k}} {middle}".rstrip() + f"{link}{{v}}" + f" {last}".rstrip() + end
    same = draw.integer(0, 2) == 0
    asked = f"{first}{{k}} {middle}" if same else f"{_draw_words(draw, 1, 4)}{{k}} {_draw_words(draw, 0, 3)}"
    return Wording(pair, asked.rstrip() + link.rstrip())


def _draw_words(draw: Draw, least: int, most: int) -> str:
    """Some words, each followed by a space."""
    return "".join(f"{draw.one(ORDINARY)} " for _ in range(draw.integer(least, most + 1)))
