"""Counting, a control: `size` words of two kinds, and which kind is more frequent. Not sharp: every word matters.

    red blue red red. More frequent:  →  red

Sharpening cannot help here, so a calibration must not pretend to, and must do no harm.
"""

from __future__ import annotations

from types import MappingProxyType

from strop.tasks.passages import Draw, Passage, TextTask, find_words

PHRASINGS = MappingProxyType(
    {
        "colours": ("The balls are: {list}. ", "Most of the balls are", ("red", "blue")),
        "votes": ("Votes: {list}. ", "The majority voted", ("yes", "no")),
        "weather": ("Days: {list}. ", "Most days were", ("wet", "dry")),
    }
)


class Counting(TextTask):
    """The more frequent of two words; the margin is at least a fifth of `size`."""

    name = "counting"
    phrasings = PHRASINGS
    held_out = ("weather",)

    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Write the words; there is one question to ask."""
        context, question, kinds = PHRASINGS[phrasing]
        winner, other = draw.some(kinds, 2)
        fewest = min(size, (3 * size + 4) // 5)
        count = draw.integer(fewest, size + 1)
        words = draw.some([winner] * count + [other] * (size - count), size)
        listed, start = " ".join(words), len(context.partition("{list}")[0])
        evidence = tuple((start + first, start + last) for first, last in find_words(listed, winner))
        return Passage(context.format(list=listed), ((question, f" {winner}"),), size, phrasing, (evidence,))


task = Counting()
