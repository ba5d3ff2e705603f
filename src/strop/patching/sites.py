"""Where a model's attention is: the modules that call transformers' attention interface, or torch's attention, by name.

Found by what a class's methods mention, so that a model which cannot be patched is refused before it runs.
Layers are chosen by number (the order of `named_modules`, which for a plain decoder is the layer's own
number), by name, or by a pattern such as "decoder.*". `layer_idx` is not used: it may be missing, and
encoder-decoder models repeat it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from types import FunctionType
from typing import Any

from torch import nn

from strop._checks import require, require_known
from strop.errors import ArgumentTypeError

_FRAMEWORK = ("transformers.modeling_utils", "transformers.generation.utils")
"""Where transformers' base classes live, which mention the interface without being attention."""


@dataclass(frozen=True)
class Sites:
    """The attention modules of a model by name, in the order of `named_modules`, and how each is reached."""

    all: dict[str, nn.Module]
    through_torch: frozenset[str]
    model: str

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
    require(
        isinstance(model, nn.Module), "model must be a torch.nn.Module", type(model).__name__, error=ArgumentTypeError
    )
    how = {name: (module, _way(module)) for name, module in model.named_modules()}
    reached = {name: module for name, (module, way) in how.items() if way is not None}
    found = Sites(reached, frozenset(name for name in reached if how[name][1] == "torch"), type(model).__name__)
    require(
        bool(found.all),
        "model must call transformers' attention interface or torch's scaled_dot_product_attention",
        f"{found.model}, which calls neither",
        "Its attention is written out in its own code (as in Bloom, Falcon and DeBERTa), or it has none",
    )
    return found


def find_owners(model: nn.Module) -> list[nn.Module]:
    """The transformers models in a module: itself, or those inside it, outermost only."""
    found: list[nn.Module] = []
    inside: set[int] = set()
    for module in model.modules():
        if hasattr(module, "_supports_sdpa") and id(module) not in inside:
            found.append(module)
            inside |= {id(part) for part in module.modules()}
    return found


def _way(module: nn.Module) -> str | None:
    """How a module's attention is reached, if it has any."""
    if "ALL_ATTENTION_FUNCTIONS" in _mentioned(type(module)):
        return "transformers"
    return "torch" if _calls_torch(module) else None


def _calls_torch(module: nn.Module) -> bool:
    if type(module).__module__.startswith("transformers."):
        return False
    if isinstance(module, nn.MultiheadAttention) or isinstance(getattr(module, "fused_attn", None), bool):
        return True
    return "scaled_dot_product_attention" in _mentioned(type(module))


def _mentioned(kind: type) -> frozenset[str]:
    """Every global and attribute name that a class's own methods use, decorated or not."""
    return _names_in(kind)


@cache
def _names_in(kind: type) -> frozenset[str]:
    own = [base for base in kind.__mro__ if base not in nn.Module.__mro__ and base.__module__ not in _FRAMEWORK]
    return frozenset(name for base in own for method in vars(base).values() for name in _names(method))


def _names(method: Any) -> tuple[str, ...]:
    plain: object = inspect.unwrap(method) if callable(method) else None
    return plain.__code__.co_names if isinstance(plain, FunctionType) else ()
