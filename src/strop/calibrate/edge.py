"""An edge: what calibration found, as a file of a few kilobytes that can be checked and reused.

It remembers the model's architecture and weights (identity.py) and refuses any other. edge_file.py says what the file
looks like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from strop._checks import require
from strop.calibrate.forms import Form, form
from strop.calibrate.identity import architecture, fingerprint, heads_of
from strop.calibrate.outputs import scaled_outputs
from strop.records import StropError


class EdgeError(StropError):
    """An edge that does not fit the model, or cannot do what was asked."""


@dataclass(frozen=True)
class Edge:
    """Per-head numbers of one form, for one model; `made` says how, `figures` what it gained and cost."""

    form: str
    numbers: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    architecture: str
    fingerprint: str
    made: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, model: nn.Module, name: str, numbers: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> Edge:
        """Make an edge for a model."""
        return cls(name, dict(numbers), dict(outputs), architecture(model), fingerprint(model))

    @property
    def bakeable(self) -> bool:
        """Whether β depends on nothing but the head."""
        return form(self.form).bakeable

    @property
    def digest(self) -> str:
        """A short checksum of the numbers and the form."""
        from strop.calibrate.edge_file import digest_of

        return digest_of({"numbers": self.numbers, "outputs": self.outputs}, self.form)

    def normalisers(self) -> dict[str, Form]:
        """Return attention module → normaliser."""
        kind = form(self.form)
        return {name: kind(len(numbers), numbers).requires_grad_(False) for name, numbers in self.numbers.items()}

    def check(self, model: nn.Module) -> None:
        """Raise unless this is the model that the edge was made for."""
        remedy = "Calibrate this model, or use the edge with the model it was made for"
        found = architecture(model)
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
    def applied(self, model: nn.Module) -> Iterator[nn.Module]:
        """Put the edge on its model for the length of the block."""
        from strop.hf.patch import sharpened

        self.check(model)
        with ExitStack() as stack:
            if self.form != "none":
                stack.enter_context(sharpened(model, self.normalisers()))
            stack.enter_context(scaled_outputs(model, self.outputs))
            yield model

    def bake(self, model: nn.Module) -> nn.Module:
        """Fold the edge into the model's own weights, in place, so that it runs anywhere at no cost; see bake.py."""
        from strop.calibrate.bake import bake

        return bake(self, model)

    def heads(self, n_keys: int = 1024, entropy: float = 4.0) -> list[dict[str, Any]]:
        """Return a record per head: layer, head, β at `n_keys` keys and `entropy` nats, output scale, what was done."""
        rows = []
        for layer, (name, normaliser) in enumerate(self.normalisers().items()):
            betas = normaliser.at(n_keys, entropy).tolist()
            scales = (1.0 + self.outputs[name]).tolist() if name in self.outputs else [1.0] * len(betas)
            rows += [
                {"layer": layer, "head": h, "name": name, "beta": b, "output": s, "done": _done(b, s)}
                for h, (b, s) in enumerate(zip(betas, scales, strict=True))
            ]
        return rows

    def save(self, path: str | Path) -> None:
        """Write the edge, atomically."""
        from strop.calibrate.edge_file import write

        about = {key: getattr(self, key) for key in ("form", "architecture", "fingerprint", "made", "figures")}
        write(Path(path), about | {"modules": list(self.numbers)}, {"numbers": self.numbers, "outputs": self.outputs})

    @classmethod
    def load(cls, path: str | Path) -> Edge:
        """Read an edge, or raise saying what is wrong with the file."""
        from strop.calibrate.edge_file import read

        about, halves = read(Path(path))
        return cls(
            form=about["form"],
            numbers={name: halves["numbers"][name] for name in about["modules"]},
            outputs=halves["outputs"],
            architecture=about["architecture"],
            fingerprint=about["fingerprint"],
            made=about["made"],
            figures=tuple(about["figures"]),
        )


def _done(beta: float, scale: float) -> str:
    words = [word for word, holds in (("sharpened", beta > 1), ("softened", beta < 1), ("scaled", scale != 1)) if holds]
    return " and ".join(words) or "left alone"


def _difference(wanted: Mapping[str, int], actual: Mapping[str, int]) -> str:
    if len(wanted) != len(actual):
        return f"{len(actual)} attention modules instead of {len(wanted)}"
    return next((f"{name} with {heads} heads" for name, heads in actual.items() if wanted.get(name) != heads), "others")
