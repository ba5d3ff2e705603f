"""Key–value recall: many pairs, then one of the keys; the answer is its value. Sharp: one pair matters of `size`.

The code of pear is 4410. The code of oak is 7314. The code of shell is 2096.
The code of oak is  →  7314
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from strop.tasks.passages import Draw, Passage, Span, TextTask, place_field
from strop.tasks.words import names


@dataclass(frozen=True)
class Phrasing:
    """How a pair, and a question, are written; {k} is the key and {v} the value, with which every answer ends."""

    pair: str
    question: str
    before: str = ""


PHRASINGS = MappingProxyType(
    {
        "code": Phrasing("The code of {k} is {v}. ", "The code of {k} is"),
        "list": Phrasing("{k}: {v}\n", "{k}:"),
        "arrow": Phrasing("{k} -> {v}; ", "{k} ->"),
        "table": Phrasing("| {k} | {v} |\n", "| {k} |", "| thing | number |\n|---|---|\n"),
        "year": Phrasing("The {k} was made in {v}. ", "The {k} was made in"),
        "weight": Phrasing("The {k} weighs {v} grams. ", "The {k} weighs"),
        "room": Phrasing("You will find the {k} in room {v}. ", "You will find the {k} in room"),
        "price": Phrasing("A {k} costs {v} coins. ", "Question: how many coins is a {k}? Answer:"),
        "python": Phrasing("stock['{k}'] = {v}\n", ">>> print(stock['{k}'])\n", ">>> stock = dict()\n"),
        "dial": Phrasing("To reach the {k}, dial {v}. ", "To reach the {k}, dial"),
    }
)


class Recall(TextTask):
    """The value of one key among `size` pairs; values are four digits."""

    name = "recall"
    phrasings = PHRASINGS
    held_out = ("room", "price", "python", "dial")

    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Write `size` pairs and ask for some of them, never the same twice."""
        words = PHRASINGS[phrasing]
        pairs = [(key, str(draw.integer(1000, 10000))) for key in names(size, draw)]
        context, places = words.before, dict[str, Span]()
        for key, value in pairs:
            places[key] = place_field(words.pair, "v", {"k": key, "v": value}, len(context))
            context += words.pair.format(k=key, v=value)
        asked = draw.some(pairs, min(questions, size))
        space = "" if words.question.endswith("\n") else " "
        written = tuple((words.question.format(k=key), space + value) for key, value in asked)
        return Passage(context, written, size, phrasing, tuple((places[key],) for key, _ in asked))


task = Recall()
