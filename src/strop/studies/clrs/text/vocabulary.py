"""The tokens of some algorithms' questions: digits stand alone, so that a number takes several tokens.

    "[0.549 0.7]"   →   "[0." 5 4 9 " 0." 7 "]"

What begins a value is one token with the space or bracket before it; what follows is one digit a token. This is how the
tokenisers of Gemma and SmolLM2 treat digits, with the fixed words of the question cut to a token each. `digit_place`
says where in a number a token stands: 0 begins it, 1 is the first digit after that, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from strop.errors import ArgumentError
from strop.studies.clrs.text.algorithm import Algorithm

DIGITS = "0123456789"
END = "\n\n"
"""The token that ends an answer."""
_OPENINGS = ("", " ", "[", "[[", "], [")
_CLOSINGS = ("]", "]]", ", ", ".", "-", "[", " ")


class Vocabulary:
    """Text of algorithms to tokens and back; the longest token that fits is taken.

    Args:
        algorithms: whose questions are read.

    Examples:
        >>> from strop.studies.clrs.text import Vocabulary, find_algorithm
        >>> vocabulary = Vocabulary(find_algorithm("minimum"))
        >>> [vocabulary.pieces[token] for token in vocabulary.encode("[0.549 0.7]")]
        ['[0.', '5', '4', '9', ' 0.', '7', ']']
    """

    def __init__(self, *algorithms: Algorithm) -> None:
        words = [word for algorithm in algorithms for word in _fixed_words(algorithm)]
        values = [before + value for before in _OPENINGS for value in (*DIGITS, "0.", "-0.", "-1")]
        self.pieces = tuple(dict.fromkeys([END, *words, *values, *_CLOSINGS]))
        self._numbers = {piece: i for i, piece in enumerate(self.pieces)}
        ordered = sorted(self.pieces, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered)) + "|(?s:.)")

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def end(self) -> int:
        """The token that ends an answer; it also fills up short rows."""
        return self._numbers[END]

    def encode(self, text: str) -> list[int]:
        """Text to tokens."""
        try:
            return [self._numbers[piece] for piece in self._pattern.findall(text)]
        except KeyError as error:
            raise ArgumentError(f"text must be a question of these algorithms, got {error.args[0]!r} in it.") from None

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens to text."""
        return "".join(self.pieces[token] for token in tokens)

    @cached_property
    def _single(self) -> frozenset[int]:
        return frozenset(self._numbers[digit] for digit in DIGITS)

    def digit_places(self, tokens: Sequence[int]) -> list[int]:
        """Where in its number each token stands: how many digits in a row end with it, at 0 where a value begins."""
        places: list[int] = []
        for i, token in enumerate(tokens):
            follows = token in self._single and i > 0
            places.append(places[-1] + 1 if follows else 0)
        return places


def _fixed_words(algorithm: Algorithm) -> list[str]:
    first, *rest = algorithm.shown
    asked = f"\n{', '.join(algorithm.asked)}:\n"
    return [f"{algorithm.name}:\n{first}: ", *(f", {name}: " for name in rest), asked]
