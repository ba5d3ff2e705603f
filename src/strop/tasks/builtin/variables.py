"""Variable tracking: `size` assignments, some to numbers and some to other variables; the answer is a variable's value.

a = 412; b = 907; c = a; d = b; e = c;   e =  →  412
"""

from __future__ import annotations

from types import MappingProxyType

from strop.errors import ArgumentError
from strop.tasks.passages import Draw, Passage, Span, TextTask, place_field

PHRASINGS = MappingProxyType(
    {
        "code": ("{k} = {v}\n", "print({k})  #"),
        "let": ("Let {k} be {v}. ", "The value of {k} is"),
        "words": ("Variable {k} takes the value of {v}. ", "Variable {k} holds the number"),
    }
)
NAMES = tuple(f"{first}{second}" for first in "abcdefghjkmnpqrstuvwxyz" for second in "abcdefghjkmnpqrstuvwxyz")


class Variables(TextTask):
    """The value of a variable among `size` assignments; every other one is to an earlier variable."""

    name = "variables"
    phrasings = PHRASINGS
    held_out = ("words",)

    def passage(self, size: int, phrasing: str, questions: int, draw: Draw) -> Passage:
        """Write the assignments and ask for variables that were given another one, where there are any."""
        if size > len(NAMES):
            raise ArgumentError(f"size must be at most {len(NAMES)}, got {size}. There are no more names.")
        line, question = PHRASINGS[phrasing]
        values: dict[str, int] = {}
        places: dict[str, Span] = {}  # where the number stands that a variable has in the end
        context, linked = "", []
        for i, name in enumerate(draw.some(NAMES, size)):
            source = draw.one(list(values)) if i % 2 and values else None
            values[name] = draw.integer(100, 1000) if source is None else values[source]
            linked += [] if source is None else [name]
            fields = {"k": name, "v": str(values[name]) if source is None else source}
            places[name] = place_field(line, "v", fields, len(context)) if source is None else places[source]
            context += line.format(**fields)
        asked = draw.some(linked or list(values), questions)
        written = tuple((question.format(k=name), f" {values[name]}") for name in asked)
        return Passage(context, written, size, phrasing, tuple((places[name],) for name in asked))


task = Variables()
