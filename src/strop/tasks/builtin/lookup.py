"""Look-up, recall made hard: many pairs whose keys may share halves, in wordings and words that calibration never saw.

    The code of oak-pear is 4410. The code of oak-shell is 7314. The code of lamp-pear is 2096.
    The code of oak-shell is  →  7314

    lookup            seven passages of ten have similar keys, the others common nouns
    lookup-similar    similar keys only
    lookup-nouns      common nouns only

A wording has its own nouns (nouns.py): those to descend on, to stop by and to test on have no noun in common. In a
wording to descend on, whoever asks in it, half of the passages with similar keys have dense ones.
"""

from __future__ import annotations

from types import MappingProxyType

from strop.tasks.nouns import plain, similar
from strop.tasks.passages import Draw, Passage, TextTask
from strop.tasks.wordings import Wording, draw_wording

DRAWN = "drawn"
"""The phrasing whose wording is another one in every passage."""

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
        "password": Wording("The password for {k} is {v}.\n", "What is the password for {k}? The password is"),
        "equals": Wording("{k} = {v}\n", "{k} ="),
        "weighs": Wording("The {k} weighs {v} grams. ", "How much does the {k} weigh? It weighs"),
        "scored": Wording("{k} scored {v} points.\n", "{k} scored"),
        "csv": Wording("{k},{v}\n", "{k},", "name,value\n"),
        "rated": Wording("Rating of {k}: {v}; ", "Rating of {k}:"),
        "bullets": Wording("- {k}: {v}\n", "- {k}:", "Values:\n"),
        "sold": Wording("On Monday {k} was sold {v} times.\n", "How often was {k} sold? It was sold"),
        "pages": Wording("The book {k} has {v} pages. ", "Q: How many pages does the book {k} have?\nA: It has"),
        "assign": Wording('set("{k}", {v});\n', 'set("{k}",'),
        "tower": Wording("Tower {k} was built with {v} stones. ", "How many stones has tower {k}? It was built with"),
        "born": Wording("{k}, born {v}, ", "{k}, born"),
        "distance": Wording("From here to {k} it is {v} miles. ", "How far is {k}? From here it is"),
        "yaml": Wording("{k}:\n  id: {v}\n", "{k}:\n  id:"),
        "paren": Wording("{k} ({v}), ", "{k} ("),
        DRAWN: Wording("…", "…"),
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
        words = draw_wording(draw) if phrasing == DRAWN else PHRASINGS[phrasing]
        if draw.integer(0, 10) < 10 * self.share:
            keys = similar(size, words.split, draw, dense=words.split == "train" and draw.integer(0, 2) == 1)
        else:
            keys = plain(size, words.split, draw)
        pairs = [(key, str(draw.integer(1000, 10000))) for key in keys]
        context = words.before + "".join(words.pair.format(k=key, v=value) for key, value in pairs)
        space = " " if " {v}" in words.pair else ""
        asked = draw.some(pairs, min(questions, size))
        written = tuple((words.question.format(k=key), space + value) for key, value in asked)
        return Passage(context, written, size, phrasing)


tasks = (Lookup(), Lookup("-similar", 1.0), Lookup("-nouns", 0.0))
