"""Passkey in prose: `size` sentences that say nothing, and one with a number in it; the answer is the number.

… The clock in the hall had been slow. Remember the pass key 48210. A dog slept in the doorway. …
The pass key is  →  48210
"""

from __future__ import annotations

from types import MappingProxyType

from strop.tasks.passages import Draw, Passage, TextTask, find_words
from strop.tasks.words import FILLER

PHRASINGS = MappingProxyType(
    {
        "pass key": ("Remember the pass key {v}.", "\nThe pass key is"),
        "safe": ("The number that opens the safe is {v}.", "\nThe number that opens the safe is"),
        "telephone": ("Her telephone number was {v}.", "\nQuestion: what was her telephone number?\nAnswer:"),
    }
)


class Passkey(TextTask):
    """A number of five digits, hidden at a random place among `size` sentences."""

    name = "passkey"
    phrasings = PHRASINGS
    held_out = ("telephone",)

    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Write the sentences; there is one question to ask."""
        told, question = PHRASINGS[phrasing]
        value = str(draw.integer(10_000, 100_000))
        sentences = [draw.one(FILLER) for _ in range(size)]
        sentences.insert(draw.integer(0, size + 1), told.format(v=value))
        context = " ".join(sentences)
        return Passage(context, ((question, f" {value}"),), size, phrasing, (find_words(context, value),))


task = Passkey()
