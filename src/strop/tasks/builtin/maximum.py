"""Maximum of a list: `size` numbers of three digits, each named; the answer is the largest. Sharp: one number matters.

Scores: 318, 902, 145. The highest score is  →  902
"""

from __future__ import annotations

from types import MappingProxyType

from strop.errors import ArgumentError
from strop.tasks.passages import Draw, Passage, TextTask, find_words

PHRASINGS = MappingProxyType(
    {
        "scores": ("Scores: {list}. ", "The highest score is"),
        "numbers": ("Here are some numbers: {list}.\n", "The largest of these numbers is"),
        "python": (">>> max([{list}])\n", ""),
        "prices": ("The prices are {list} coins. ", "The dearest costs"),
        "question": ("List: {list}\n", "Question: what is the maximum of the list?\nAnswer:"),
    }
)


class Maximum(TextTask):
    """The largest of `size` different numbers from 100 to 999."""

    name = "maximum"
    phrasings = PHRASINGS
    held_out = ("prices", "question")

    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Write one list; there is one question to ask of it."""
        if size > 900:
            raise ArgumentError(f"size must be at most 900, got {size}. There are no more numbers of three digits.")
        numbers = draw.some(range(100, 1000), size)
        context, question = PHRASINGS[phrasing]
        space = " " if question else ""
        answer, text = (question, space + str(max(numbers))), context.format(list=", ".join(map(str, numbers)))
        return Passage(text, (answer,), size, phrasing, (find_words(text, str(max(numbers))),))


task = Maximum()
