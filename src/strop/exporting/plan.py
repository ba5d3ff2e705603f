"""What an export will hold, told before anything is written: exactly, to rounding, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strop._version import __version__

if TYPE_CHECKING:
    from strop.edges.edge import Edge


@dataclass(frozen=True)
class Plan:
    """An export that can be written.

    Attributes:
        to: What is written: gguf, transformers, peft, lora, gguf-lora or vllm.
        out: Where it goes.
        exact: What will hold exactly, a sentence each.
        rounded: What will hold to rounding, and to how much.
        lost: What cannot be expressed, and why.
        put: Writes it to the path that it is given.

    Examples:
        >>> print(Plan("peft", Path("adapter"), ("query: 30 layers",), (), (), lambda path: None))
        Export to peft: adapter
          exact      query: 30 layers
    """

    to: str
    out: Path
    exact: tuple[str, ...]
    rounded: tuple[str, ...]
    lost: tuple[str, ...]
    put: Callable[[Path], None]

    def __str__(self) -> str:
        told = (("exact", self.exact), ("rounded", self.rounded), ("not held", self.lost))
        lines = [f"  {word:<11}{line}" for word, found in told for line in found]
        return "\n".join([f"Export to {self.to}: {self.out}", *lines])

    def write(self) -> Path:
        """Write it, whole or not at all, and return where it is."""
        self.put(self.out)
        return self.out


def describe_edge(edge: Edge) -> Mapping[str, str]:
    """Return what an export says of its edge, by keys of our own."""
    return {
        "strop.version": __version__,
        "strop.edge": repr(edge).strip("<>"),
        "strop.edge.digest": edge.digest,
        "strop.edge.fingerprint": edge.fingerprint,
        "strop.edge.figures": json.dumps([dict(row) for row in edge.figures]),
    }
