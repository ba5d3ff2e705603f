"""Chains: `size` assignments, of a number or of what a name before has; the answer is every name with one number.

    ab = 412; cd = 907; ef = ab; gh = ef;    412:  →  ab ef gh

A solved example of another passage stands before. Its answer has the form of the one that is asked for, and none of its
names: a model that copies what it last wrote is wrong.
"""

from __future__ import annotations

from types import MappingProxyType

from strop._checks import require
from strop.tasks.builtin.variables import NAMES
from strop.tasks.passages import Draw, Passage, Span, TextTask, place_field

PHRASINGS = MappingProxyType(
    {
        "code": ("{k} = {v}\n", "{k} = {v}\n", "# all that are {v}:", " "),
        "boxes": ("Box {k} has {v} coins. ", "Box {k} has as many as box {v}. ", "Boxes with {v} coins:", ", "),
        "people": ("{k} is in room {v}. ", "{k} is with {v}. ", "In room {v} there are", " and "),
    }
)

LENGTH = 4
"""Names in a chain, but for a shorter last one."""

EXAMPLE = 8
"""Assignments of the solved example, at most."""


Chain = list[tuple[str, Span]]
"""The names that have one number, and where each stands when it gets it."""


class Chains(TextTask):
    """The names that have one number among `size` assignments, in the order in which they got it."""

    name = "chains"
    phrasings = PHRASINGS
    held_out = ("people",)

    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Write the example and the assignments, and ask for the names of some numbers."""
        count = min(size, EXAMPLE)
        require(
            size + count <= len(NAMES), f"size must be at most {len(NAMES) - EXAMPLE}", size, "There are no more names"
        )
        names = [name.capitalize() if phrasing == "people" else name for name in draw.some(NAMES, size + count)]
        _, _, question, comma = PHRASINGS[phrasing]
        context, chains = "", dict[str, Chain]()
        for some in (names[size:], names[:size]):
            context += "" if not chains else _solve(question, comma, *next(iter(chains.items())))
            context, chains = _write(context, some, phrasing, draw)
        asked = draw.some(list(chains.items()), questions)
        written = tuple((question.format(v=v), _say(comma, [name for name, _ in chain])) for v, chain in asked)
        return Passage(context, written, size, phrasing, tuple(tuple(span for _, span in chain) for _, chain in asked))


def _write(context: str, names: list[str], phrasing: str, draw: Draw) -> tuple[str, dict[str, Chain]]:
    """Append an assignment for each name, chains side by side; return the text and the chains by number."""
    given, linked, *_ = PHRASINGS[phrasing]
    values = draw.some([str(v) for v in range(100, 1000)], -(-len(names) // LENGTH))
    chains: dict[str, Chain] = {value: [] for value in values}
    for name, value in zip(names, draw.some(values * LENGTH, len(names)), strict=True):
        chain = chains[value]
        line = linked if chain else given
        fields = {"k": name, "v": chain[-1][0] if chain else value}
        chain.append((name, place_field(line, "k", fields, len(context))))
        context += line.format(**fields)
    return context, {value: chain for value, chain in chains.items() if chain}


def _say(comma: str, names: list[str]) -> str:
    return " " + comma.join(names)


def _solve(question: str, comma: str, value: str, chain: Chain) -> str:
    return f"{question.format(v=value)}{_say(comma, [name for name, _ in chain])}\n\n"


task = Chains()
