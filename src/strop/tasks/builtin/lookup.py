"""Look-up, recall made hard: many pairs whose keys may share halves, in wordings and words that calibration never saw.

    The code of oak-pear is 4410. The code of oak-shell is 7314. The code of lamp-pear is 2096.
    The code of oak-shell is  →  7314

    lookup            seven passages of ten have similar keys, the others common nouns
    lookup-similar    similar keys only
    lookup-nouns      common nouns only

A wording has its own nouns (nouns.py): those to descend on, to stop by and to test on have no noun in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from strop.tasks.nouns import plain, similar
from strop.tasks.passages import Draw, Passage, TextTask
from strop.tasks.prose import Split


@dataclass(frozen=True)
class Wording:
    """How a pair and a question are written; {k} is the key and {v} the value; `split` says which nouns are keys."""

    pair: str
    question: str
    before: str = ""
    split: Split = "train"


PHRASINGS = MappingProxyType(
    {
        "code": Wording("The code of {k} is {v}. ", "The code of {k} is"),
        "list": Wording("{k}: {v}\n", "{k}:"),
        "arrow": Wording("{k} -> {v}; ", "{k} ->"),
        "table": Wording("| {k} | {v} |\n", "| {k} |", "| name | number |\n|---|---|\n"),
        "year": Wording("The {k} was made in {v}. ", "The {k} was made in"),
        "json": Wording('"{k}": "{v}",\n', '"{k}": "', "{\n"),
        "price": Wording("A {k} costs {v} coins. ", "Question: how many coins is a {k}? Answer:"),
        "drawer": Wording("In drawer {k} there are {v} nails. ", "How many nails are in drawer {k}? There are"),
        "shelf": Wording("{k} stands on shelf {v}.\n", "{k} stands on shelf", split="validation"),
        "call": Wording("To speak to {k}, call {v}. ", "Which number reaches {k}? Call", split="validation"),
        "ticket": Wording("Ticket {k} has number {v}. ", "Ticket {k} has number", split="test"),
        "account": Wording("{k} owes us {v} dollars;\n", "{k} owes us", split="test"),
        "box": Wording("The {k} lies in box {v}. ", "Where is the {k}? It lies in box", split="test"),
    }
)


class Lookup(TextTask):
    """The value of one key among `size` pairs; `share` of the passages have similar keys; values are four digits."""

    name = "lookup"
    phrasings = PHRASINGS
    stopping = tuple(name for name, one in PHRASINGS.items() if one.split == "validation")
    held_out = tuple(name for name, one in PHRASINGS.items() if one.split == "test")

    def __init__(self, kind: str = "", share: float = 0.7) -> None:
        self.name = f"{Lookup.name}{kind}"
        self.share = share

    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Write `size` pairs and ask for some of them, never the same twice."""
        words = PHRASINGS[phrasing]
        keys = similar if draw.integer(0, 10) < 10 * self.share else plain
        pairs = [(key, str(draw.integer(1000, 10000))) for key in keys(size, words.split, draw)]
        context = words.before + "".join(words.pair.format(k=key, v=value) for key, value in pairs)
        space = "" if words.question.endswith('"') else " "
        asked = draw.some(pairs, min(questions, size))
        written = tuple((words.question.format(k=key), space + value) for key, value in asked)
        return Passage(context, written, size, phrasing)


tasks = (Lookup(), Lookup("-similar", 1.0), Lookup("-nouns", 0.0))
