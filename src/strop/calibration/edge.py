"""An edge: what calibration found, as a file of a few kilobytes that can be checked, reused and shared.

It remembers the model's architecture and weights (patching/identity.py) and refuses any other. edge_file.py says what
the file looks like, card.py what stands beside it in a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop._checks import require
from strop.errors import EdgeError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from strop.calibration.forms import Form

FILE = "edge.safetensors"
"""What the file is called in a folder or on a hub."""


@dataclass(frozen=True, repr=False)
class Edge:
    """Per-head numbers of one form, for one model.

    Attributes:
        form: What β depends on: constant, log-n, polynomial, hold, or none where only outputs are scaled.
        numbers: Attention module → numbers [heads, count] of the form; 0 leaves a head as it was.
        outputs: Attention module → output scales less 1 [heads], where outputs are scaled.
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

    form: str
    numbers: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    architecture: str
    fingerprint: str
    made: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, model: nn.Module, form: str, numbers: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Edge:
        """Make an edge for a model."""
        from strop.patching.identity import architecture_of, fingerprint

        return cls(form, dict(numbers), dict(outputs), architecture_of(model), fingerprint(model))

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
    def kind(self) -> str:
        """What is changed, in words."""
        return self.form + (" and outputs" if self.outputs and self.form != "none" else "")

    @property
    def bakeable(self) -> bool:
        """Whether β depends on nothing but the head."""
        from strop.calibration.forms import find_form

        return find_form(self.form).bakeable

    @property
    def digest(self) -> str:
        """A short checksum of the numbers and the form."""
        from strop.calibration.edge_file import digest_of

        return digest_of({"numbers": self.numbers, "outputs": self.outputs}, self.form)

    @property
    def summary(self) -> str:
        """What calibration did, in two sentences."""
        from strop.calibration.card import summarise_edge

        return summarise_edge(self)

    def normalisers(self) -> dict[str, Form]:
        """Return attention module → normaliser."""
        from strop.calibration.forms import find_form

        kind = find_form(self.form)
        return {name: kind(len(numbers), numbers).requires_grad_(False) for name, numbers in self.numbers.items()}

    def check(self, model: nn.Module) -> None:
        """Raise unless this is the model that the edge was made for."""
        from strop.patching.identity import architecture_of, fingerprint, heads_of

        remedy = "Calibrate this model, or use the edge with the model it was made for"
        found = architecture_of(model)
        require(
            found == self.architecture, f"model must be of the family {self.architecture}", found, remedy, EdgeError
        )
        shape = {name: len(numbers) for name, numbers in self.numbers.items()}
        actual = heads_of(model)
        require(
            shape == actual, "model must have the edge's attention heads", _difference(shape, actual), remedy, EdgeError
        )
        weights = fingerprint(model)
        rule = f"model must have the weights of fingerprint {self.fingerprint}"
        require(weights == self.fingerprint, rule, weights, remedy, EdgeError)

    @contextmanager
    def put_on(self, model: nn.Module) -> Iterator[nn.Module]:
        """Put the edge on its model for the length of the block; `strop.sharpened(model, edge)` does the same."""
        from strop.calibration.interventions import scale_outputs
        from strop.patching.placement import device_of
        from strop.patching.sharpen import sharpened

        self.check(model)
        places = {name: device_of(model.get_submodule(name)) for name in self.numbers}
        with ExitStack() as stack:
            if self.form != "none":
                rules = {name: rule.to(places[name]) for name, rule in self.normalisers().items()}
                stack.enter_context(sharpened(model, rules))
            outputs = {name: scale.to(places[name]) for name, scale in self.outputs.items()}
            stack.enter_context(scale_outputs(model, outputs))
            yield model

    def bake(self, model: nn.Module) -> nn.Module:
        """Fold the edge into the model's own weights, in place, so that it runs anywhere at no cost; see bake.py."""
        from strop.calibration.bake import bake_edge

        return bake_edge(self, model)

    def heads(self, n_keys: int = 1024, entropy: float = 4.0) -> list[dict[str, Any]]:
        """Return a record per head: layer, head, β at `n_keys` keys and `entropy` nats, output scale, what was done."""
        rows = []
        for layer, (name, normaliser) in enumerate(self.normalisers().items()):
            betas = normaliser.at(n_keys, entropy).tolist()
            scales = (1.0 + self.outputs[name]).tolist() if name in self.outputs else [1.0] * len(betas)
            rows += [
                {"layer": layer, "head": h, "name": name, "beta": b, "output": s, "done": _name_change(b, s)}
                for h, (b, s) in enumerate(zip(betas, scales, strict=True))
            ]
        return rows

    def save(self, path: str | Path) -> None:
        """Write the edge to a file, atomically."""
        from strop.calibration.edge_file import write_edge

        about = {key: getattr(self, key) for key in ("form", "architecture", "fingerprint", "made", "figures")}
        halves = {"numbers": self.numbers, "outputs": self.outputs}
        write_edge(Path(path), about | {"modules": list(self.numbers)}, halves)

    @classmethod
    def load(cls, path: str | Path) -> Edge:
        """Read an edge from a file, or raise saying what is wrong with it."""
        from strop.calibration.edge_file import read_edge

        about, halves = read_edge(Path(path))
        return cls(
            form=about["form"],
            numbers={name: halves["numbers"][name] for name in about["modules"]},
            outputs=halves["outputs"],
            architecture=about["architecture"],
            fingerprint=about["fingerprint"],
            made=about["made"],
            figures=tuple(about["figures"]),
        )

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write the edge and a card that describes it into a folder; return the folder."""
        from strop.calibration.card import write_card

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
        from strop.calibration.card import find_edge_file

        return cls.load(find_edge_file(name, revision))

    def push_to_hub(self, name: str, private: bool = False) -> str:
        """Upload the edge and its card to a hub repository, made if it is not there; return its address.

        Args:
            name: owner/name of the repository.
            private: Make a new repository private.
        """
        from strop.calibration.card import upload_edge

        return upload_edge(self, name, private)


def _name_change(beta: float, scale: float) -> str:
    words = [word for word, holds in (("sharpened", beta > 1), ("softened", beta < 1), ("scaled", scale != 1)) if holds]
    return " and ".join(words) or "left alone"


def _difference(wanted: Mapping[str, int], actual: Mapping[str, int]) -> str:
    if len(wanted) != len(actual):
        return f"{len(actual)} attention modules instead of {len(wanted)}"
    return next((f"{name} with {heads} heads" for name, heads in actual.items() if wanted.get(name) != heads), "others")
