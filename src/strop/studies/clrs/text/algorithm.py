"""One algorithm of CLRS-Text (arXiv 2406.04229): inputs of any size, the answer that the algorithm finds, both as text.

    minimum:                        its name
    key: [0.549 0.715 0.603]        its inputs
    min:                            what is asked: here the index of the least key
    0                               the answer, then an empty line

Lists stand in brackets with spaces between their items, matrices in brackets with ", " between their rows. Numbers are
cut to three decimals, as in the published data. Hints, the states between input and answer, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from strop._checks import require

if TYPE_CHECKING:
    from torch import Generator

Vector: TypeAlias = list[Any]
Inputs: TypeAlias = dict[str, Any]
"""Name of an input → a number, a list, or a list of lists."""


@dataclass(frozen=True)
class Question:
    """A problem as text.

    Args:
        prompt: what a model reads, up to and with the line that says what is asked.
        answer: what it should write, with the empty line that ends it.

    Examples:
        >>> from strop.studies.clrs.text import find_algorithm
        >>> question = find_algorithm("minimum").ask({"key": [0.549, 0.715, 0.03]})
        >>> print(question.prompt + question.answer.strip())
        minimum:
        key: [0.549 0.715 0.03]
        min:
        2
    """

    prompt: str
    answer: str

    @property
    def text(self) -> str:
        """Prompt and answer."""
        return self.prompt + self.answer


@dataclass(frozen=True)
class Algorithm:
    """How problems are drawn and solved; `find_algorithm` has them by name.

    Args:
        name: as CLRS has it.
        shown: names of the inputs, in the order of the text.
        asked: names of the outputs.
        draw: size and generator → inputs.
        solve: the algorithm itself: inputs by name → the outputs in order.
        sizes: the sizes on which the paper trains.
        smallest: the least size that can be drawn.

    Examples:
        >>> from strop.studies.clrs.text import find_algorithm
        >>> from strop.studies.problems import stream
        >>> algorithm = find_algorithm("insertion_sort")
        >>> print(algorithm.sample(3, stream("example")).answer.strip())
        [0.062 0.109 0.386]
    """

    name: str
    shown: tuple[str, ...]
    asked: tuple[str, ...]
    draw: Callable[[int, Generator], Inputs]
    solve: Callable[..., tuple[Any, ...]]
    sizes: tuple[int, ...]
    smallest: int = 2

    def sample(self, size: int, generator: Generator) -> Question:
        """Draw a problem of one size; the generator alone decides what is drawn."""
        require(size >= self.smallest, f"size of {self.name} must be at least {self.smallest}", size)
        return self.ask(self.draw(size, generator))

    def ask(self, inputs: Mapping[str, Any]) -> Question:
        """Write given inputs and the answer to them."""
        shown = ", ".join(f"{name}: {write_value(inputs[name])}" for name in self.shown)
        found = ", ".join(map(write_value, self.solve(**inputs)))
        return Question(f"{self.name}:\n{shown}\n{', '.join(self.asked)}:\n", f"{found}\n\n")


def write_value(value: float | Vector) -> str:
    """A number, a list or a matrix as text."""
    if not isinstance(value, list):
        return str(value)
    apart = ", " if value and isinstance(value[0], list) else " "
    return f"[{apart.join(map(write_value, value))}]"
