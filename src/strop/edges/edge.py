"""An edge: what calibration found, as a small file that can be checked, reused and shared.

It remembers the model's architecture and weights (patching/identity.py) and refuses any other. edge_file.py says what
the file looks like, card.py what stands beside it in a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop._checks import require
from strop.errors import EdgeError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from strop.edges.part import Part
    from strop.edges.temperatures import TemperaturePart

FILE = "edge.safetensors"
"""What the file is called in a folder or on a hub."""


@dataclass(frozen=True, repr=False)
class Edge:
    """Numbers of one form, for one model.

    Attributes:
        parts: Term of the form → attention module → its numbers; `strop.edges.forms` lists the terms.
        heads_of: Attention module → number of its heads, in the model's order.
        architecture: The family of the model it was made for.
        fingerprint: A checksum of that model's weights.
        made: How it was made: settings, data, progress.
        figures: What it gained and cost, as measured after calibration.

    Examples:
        >>> import strop
        >>> edge = strop.Edge.load("examples/edges/smollm2-recall.safetensors")
        >>> edge
        <Edge for smollm2 (llama): constant and outputs, 270 of 270 heads changed; validation loss 1.211 → 0.282 nats>
        >>> edge.heads()[0]["done"]
        'softened and scaled'
    """

    parts: Mapping[str, Mapping[str, Part]]
    heads_of: Mapping[str, int]
    architecture: str
    fingerprint: str
    made: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Nothing is learned any more."""
        for part in (part for named in self.parts.values() for part in named.values()):
            part.requires_grad_(False)

    @classmethod
    def of(cls, model: nn.Module, parts: Mapping[str, Mapping[str, Part]]) -> Edge:
        """Make an edge for a model."""
        from strop.patching.identity import architecture_of, fingerprint, heads_of

        return cls(parts, heads_of(model), architecture_of(model), fingerprint(model))

    def __repr__(self) -> str:
        rows = self.heads()
        changed = sum(row["done"] != "left alone" for row in rows)
        progress = self.made.get("progress")
        loss = f"; validation loss {progress['first_task']:.3f} → {progress['best_task']:.3f} nats" if progress else ""
        return (
            f"<Edge for {self.made.get('model', 'a model')} ({self.architecture}): {self.kind}, "
            f"{changed} of {len(rows)} heads changed{loss}>"
        )

    @property
    def form(self) -> str:
        """The terms of its form, such as constant or pairs+log-n; none where only outputs are scaled."""
        return "+".join(term for term in self.parts if term != "outputs") or "none"

    @property
    def kind(self) -> str:
        """What is changed, in words."""
        return " and ".join(term for term in self.parts) or "none"

    @property
    def size(self) -> int:
        """How many numbers were learned."""
        return sum(one.numel() for named in self.parts.values() for part in named.values() for one in part.parameters())

    @property
    def bakeable(self) -> bool:
        """Whether what is changed depends on nothing but the head."""
        return all(part.fold() is not None for named in self.parts.values() for part in named.values())

    def parts_of(self, name: str) -> list[Part]:
        """Return the parts of one attention module."""
        return [named[name] for named in self.parts.values() if name in named]

    @property
    def temperatures(self) -> dict[str, TemperaturePart]:
        """Attention module → its temperature, where the form has one."""
        from strop.edges.temperatures import TemperaturePart

        every = ((name, part) for named in self.parts.values() for name, part in named.items())
        return {name: part for name, part in every if isinstance(part, TemperaturePart)}

    @property
    def digest(self) -> str:
        """A short checksum of the numbers and the form."""
        from strop.edges.edge_file import digest_of

        return digest_of(self)

    @property
    def summary(self) -> str:
        """What calibration did, in two sentences."""
        from strop.edges.card import summarise_edge

        return summarise_edge(self)

    def check(self, model: nn.Module) -> None:
        """Raise unless this is the model that the edge was made for."""
        from strop.patching.identity import architecture_of, fingerprint, heads_of

        remedy = "Calibrate this model, or use the edge with the model it was made for"
        found = architecture_of(model)
        require(
            found == self.architecture, f"model must be of the family {self.architecture}", found, remedy, EdgeError
        )
        wanted, actual = self.heads_of, heads_of(model)
        rule = "model must have the edge's attention heads"
        require(wanted == actual, rule, _difference(wanted, actual), remedy, EdgeError)
        weights = fingerprint(model)
        rule = f"model must have the weights of fingerprint {self.fingerprint}"
        require(weights == self.fingerprint, rule, weights, remedy, EdgeError)

    @contextmanager
    def put_on(self, model: nn.Module, partial: bool = False) -> Iterator[nn.Module]:
        """Put the edge on its model for the length of the block; `strop.sharpened(model, edge)` does the same.

        An edge names its modules. `partial` accepts that some of them run without calling the attention we replace.
        """
        from strop.edges.apply import apply_parts, place_parts

        self.check(model)
        with apply_parts(model, place_parts(model, self.parts), partial=partial):
            yield model

    def bake(self, model: nn.Module) -> nn.Module:
        """Fold the edge into the model's own weights, in place, so that it runs anywhere at no cost; see bake.py."""
        from strop.edges.bake import bake_edge

        return bake_edge(self, model)

    def heads(self, n_keys: int = 1024, entropy: float = 4.0) -> list[dict[str, Any]]:
        """Return a record per head: layer, head, β at `n_keys` keys and `entropy` nats, output scale, what was done."""
        rows = []
        for layer, (name, heads) in enumerate(self.heads_of.items()):
            done = _describe(self.parts_of(name), heads, n_keys, entropy)
            for h, (beta, output, turned) in enumerate(zip(*(column.tolist() for column in done), strict=True)):
                word = _name_change(beta, output, turned)
                rows.append({"layer": layer, "head": h, "name": name, "beta": beta, "output": output, "done": word})
        return rows

    def save(self, path: str | Path) -> None:
        """Write the edge to a file, atomically."""
        from strop.edges.edge_file import write_edge

        write_edge(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Edge:
        """Read an edge from a file, or raise saying what is wrong with it."""
        from strop.edges.edge_file import read_edge

        return read_edge(Path(path))

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write the edge and a card that describes it into a folder; return the folder."""
        from strop.edges.card import write_card

        target = Path(folder)
        self.save(target / FILE)
        write_card(self, target / "README.md")
        return target

    @classmethod
    def from_pretrained(cls, name: str | Path, revision: str | None = None) -> Edge:
        """Read an edge from a folder, a file, or a hub.

        Args:
            name: A folder that `save_pretrained` wrote, the file itself, or a hub name such as owner/name.
            revision: Branch, tag or commit on the hub. None: its main branch.
        """
        from strop.edges.card import find_edge_file

        return cls.load(find_edge_file(name, revision))

    def push_to_hub(self, name: str, private: bool = False) -> str:
        """Upload the edge and its card to a hub repository, made if it is not there; return its address.

        Args:
            name: owner/name of the repository.
            private: Make a new repository private.
        """
        from strop.edges.card import upload_edge

        return upload_edge(self, name, private)


def _describe(parts: Sequence[Part], heads: int, n_keys: float, entropy: float) -> tuple[Tensor, Tensor, Tensor]:
    """β, output scale and whether it is turned, of every head, by all parts together."""
    import torch

    beta, output, turned = torch.ones(heads), torch.ones(heads), torch.zeros(heads, dtype=torch.bool)
    for found in (part.describe(n_keys, entropy) for part in parts):
        beta = beta * found.get("beta", 1.0)
        output = output * found.get("output", 1.0)
        turned = turned | found.get("turned", False)
    return beta, output, turned


def _name_change(beta: float, scale: float, turned: bool) -> str:
    changes = (("sharpened", beta > 1), ("softened", beta < 1), ("turned", turned), ("scaled", scale != 1))
    return " and ".join(word for word, holds in changes if holds) or "left alone"


def _difference(wanted: Mapping[str, int], actual: Mapping[str, int]) -> str:
    if len(wanted) != len(actual):
        return f"{len(actual)} attention modules instead of {len(wanted)}"
    return next((f"{name} with {heads} heads" for name, heads in actual.items() if wanted.get(name) != heads), "others")
