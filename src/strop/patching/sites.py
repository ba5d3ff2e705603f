"""Where a model's attention is: the modules that call transformers' attention interface, or torch's attention, by name.

Found by what a class's code says (reading.py), so that a model which cannot be patched, or only in part, is refused
before it runs. Layers are chosen by number (the order of `named_modules`, which for a plain decoder is the layer's own
number), by name, or by a pattern such as "decoder.*". `layer_idx` is not used: it may be missing, and
encoder-decoder models repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from strop._checks import require, require_known
from strop.errors import ArgumentTypeError
from strop.patching.reading import find_way

UNREACHED = {"written out": "writes its softmax out in its own code", "kernel": "calls another library's attention"}
"""Why attention cannot be reached, by its way."""


@dataclass(frozen=True)
class Sites:
    """The attention modules of a model by name, in the order of `named_modules`, and how each is reached.

    Attributes:
        all: Those that are reached.
        through_torch: Names of those that are reached through torch's own function.
        model: The model's class.
        unreached: Softmax attention that cannot be reached, by name, and why.
        others: What is called attention, or stands in its place, and has no softmax over queries and keys.
    """

    all: dict[str, nn.Module]
    through_torch: frozenset[str]
    model: str
    unreached: dict[str, str]
    others: tuple[str, ...]

    @property
    def by_interface(self) -> dict[str, nn.Module]:
        """Those that are reached through transformers."""
        return {name: module for name, module in self.all.items() if name not in self.through_torch}

    @property
    def by_torch(self) -> dict[str, nn.Module]:
        """Those that are reached through torch's own function."""
        return {name: module for name, module in self.all.items() if name in self.through_torch}

    def choose(self, layers: Sequence[int | str] | None) -> dict[str, nn.Module]:
        """Return the sites that `layers` means, or raise naming the one that means nothing."""
        everything = self.all
        if layers is None:
            return everything
        names = {name for layer in layers for name in self._match(layer)}
        return {name: module for name, module in everything.items() if name in names}

    def choose_unreached(self, layers: Sequence[int | str] | None) -> list[str]:
        """Return the names of those out of reach that `layers` means: all for None, those that a pattern fits."""
        patterns = ["*"] if layers is None else [layer for layer in layers if isinstance(layer, str)]
        return [name for name in self.unreached if any(fnmatchcase(name, pattern) for pattern in patterns)]

    def _match(self, layer: int | str) -> list[str]:
        names = list(self.all)
        if isinstance(layer, int):
            require(0 <= layer < len(names), f"layers must lie in 0..{len(names) - 1} for {self.model}", layer)
            return [names[layer]]
        meant = [name for name in names if fnmatchcase(name, layer)]
        if not meant:
            require_known(f"layers of {self.model}", layer, names)
        return meant


def find_sites(model: nn.Module) -> Sites:
    """Find the attention modules of a model, or raise naming a model that has none that can be reached."""
    found = survey(model)
    require(
        bool(found.all),
        "model must call transformers' attention interface or torch's scaled_dot_product_attention",
        f"{found.model}, {_tell_ways(model, found)}",
        "strop.coverage(model) lists what was found",
    )
    return found


def survey(model: nn.Module) -> Sites:
    """Find the attention modules of a model, those that can be reached and those that cannot."""
    require(
        isinstance(model, nn.Module), "model must be a torch.nn.Module", type(model).__name__, error=ArgumentTypeError
    )
    ways = {name: way for name, module in model.named_modules() if (way := find_way(module)) is not None}
    reached = [name for name, way in ways.items() if way in ("transformers", "torch")]
    unreached = {n: UNREACHED[way] for n, way in ways.items() if way in UNREACHED and not _holds(n, reached)}
    others = tuple(name for name, way in ways.items() if way == "other" and not _holds(name, ways))
    modules = {name: model.get_submodule(name) for name in reached}
    through_torch = frozenset(name for name in reached if ways[name] == "torch")
    return Sites(modules, through_torch, type(model).__name__, unreached, others)


def _holds(name: str, names: Iterable[str]) -> bool:
    """Whether one of the named modules is inside this one."""
    return any(other.startswith(f"{name}." if name else "") and other != name for other in names)


def _tell_ways(model: nn.Module, found: Sites) -> str:
    """Say why nothing of a model is reached."""
    for name, why in found.unreached.items():
        return f"whose {type(model.get_submodule(name)).__name__} {why}"
    for name in found.others:
        return f"whose {type(model.get_submodule(name)).__name__} has no softmax over queries and keys"
    return "in which no attention was found"


def find_owners(model: nn.Module) -> list[nn.Module]:
    """The transformers models in a module: itself, or those inside it, outermost only."""
    found: list[nn.Module] = []
    inside: set[int] = set()
    for module in model.modules():
        if hasattr(module, "_supports_sdpa") and id(module) not in inside:
            found.append(module)
            inside |= {id(part) for part in module.modules()}
    return found
