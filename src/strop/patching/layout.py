"""Where an attention module keeps its projections and norms: one entry per family of models, in FAMILIES.

Whoever reads or changes a head's weights goes by this: bounds on logits, baking, output scales, counting heads. A model
of another family needs one more entry here and nothing else.

    Separate      three linear layers                             Llama, Mistral, Qwen, Gemma, OLMo, BERT, ViT, T5
    Stacked       one layer, all q, then all k, then all v        GPT-2 (transposed), StarCoder, Phi-3
    Interleaved   one layer, q, k and v of a head together        GPT-NeoX, Pythia
    Latent        keys and values through a narrow layer          DeepSeek (MLA): the query alone is known
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from strop._checks import require

OUTPUTS = ("o_proj", "out_proj", "dense", "c_proj", "wo")
QUERY_NORMS = ("q_norm", "q_layernorm")
KEY_NORMS = ("k_norm", "k_layernorm")


class Projection(NamedTuple):
    """Some outputs of a linear layer, `rows` [heads·d] in the order of the heads; GPT-2 keeps its weight transposed."""

    layer: Any
    rows: Tensor
    transposed: bool = False

    def weight(self, heads: int) -> Tensor:
        """The weight [heads, d, d_in]."""
        whole: Tensor = self.layer.weight.T if self.transposed else self.layer.weight
        by_head: Tensor = whole[self.rows].unflatten(0, (heads, -1))
        return by_head

    def bias(self, heads: int) -> Tensor | None:
        """The bias [heads, d], or None."""
        return None if self.layer.bias is None else self.layer.bias[self.rows].unflatten(0, (heads, -1))

    def scale(self, factors: Tensor) -> None:
        """Multiply what the heads get by their factors [heads, d] or [heads, 1], in place."""
        each = factors.expand(-1, len(self.rows) // len(factors)).flatten().to(self.layer.weight)
        whole = self.layer.weight.T if self.transposed else self.layer.weight
        whole[self.rows] = whole[self.rows] * each[:, None]
        if self.layer.bias is not None:
            self.layer.bias[self.rows] = self.layer.bias[self.rows] * each

    def add(self, change: Tensor) -> None:
        """Add to the weight [heads·d, d_in], in place."""
        whole = self.layer.weight.T if self.transposed else self.layer.weight
        whole[self.rows] = whole[self.rows] + change.to(whole)

    def pick(self, out: Tensor) -> Tensor:
        """Return the projection's own share of what its layer gives, [*batch, heads·d]."""
        return out if len(self.rows) == out.shape[-1] else out[..., self.rows]

    def put(self, out: Tensor, own: Tensor) -> Tensor:
        """Return what the layer gives with another own share."""
        return own if len(self.rows) == out.shape[-1] else out.index_copy(-1, self.rows.to(out.device), own)


class AttentionLayout(NamedTuple):
    """One attention module's parts; what is not there, or not known, is None."""

    heads: int
    key_heads: int
    query: Projection | None
    key: Projection | None
    value: Projection | None
    query_norm: nn.Module | None
    key_norm: nn.Module | None

    @property
    def query_weight(self) -> Tensor | None:
        """The weight of the query norm: [d], which the heads share, or a number for every dimension of every head."""
        weight: Tensor | None = getattr(self.query_norm, "weight", None)
        return weight


Projections = tuple[Projection, Projection | None, Projection | None]
"""Query, key and value; None where no layer makes it alone."""


class Family(Protocol):
    """How a family keeps its projections."""

    def find(self, module: nn.Module, heads: int, key_heads: int) -> Projections | None:
        """Return query, key and value projections, or None for a module of another family."""


@dataclass(frozen=True)
class Separate:
    """Three linear layers by these names."""

    names: tuple[str, str, str]

    def find(self, module: nn.Module, heads: int, key_heads: int) -> Projections | None:
        """Every row of each layer."""
        found = (getattr(module, name, None) for name in self.names)
        layers = [layer for layer in found if isinstance(layer, nn.Linear)]
        if len(layers) < len(self.names):
            return None
        query, key, value = (Projection(layer, torch.arange(layer.out_features)) for layer in layers)
        return query, key, value


@dataclass(frozen=True)
class Stacked:
    """One layer by this name: the rows of all query heads, then of all key heads, then of all value heads.

    `transposed` is transformers' Conv1D; `grouped` layers are of this kind only where key heads are shared.
    """

    name: str
    transposed: bool = False
    grouped: bool = False

    def find(self, module: nn.Module, heads: int, key_heads: int) -> Projections | None:
        """Three stretches of rows."""
        layer: Any = getattr(module, self.name, None)
        if layer is None or isinstance(layer, nn.Linear) == self.transposed or (self.grouped and key_heads == heads):
            return None
        total = layer.weight.shape[int(self.transposed)]
        if total % (heads + 2 * key_heads):
            return None
        size = total // (heads + 2 * key_heads)
        cuts = torch.arange(total).split([heads * size, key_heads * size, key_heads * size])
        query, key, value = (Projection(layer, rows, self.transposed) for rows in cuts)
        return query, key, value


@dataclass(frozen=True)
class Interleaved:
    """One layer by this name: q, k and v of the first head, then those of the second, and so on."""

    name: str

    def find(self, module: nn.Module, heads: int, key_heads: int) -> Projections | None:
        """Every third stretch of rows."""
        layer: Any = getattr(module, self.name, None)
        if not isinstance(layer, nn.Linear) or key_heads != heads or layer.out_features % (3 * heads):
            return None
        by_head = torch.arange(layer.out_features).view(heads, 3, -1)
        query, key, value = (Projection(layer, by_head[:, i].flatten()) for i in range(3))
        return query, key, value


@dataclass(frozen=True)
class Latent:
    """Queries by the first of these layers that is there, keys and values through a narrow layer."""

    queries: tuple[str, ...]

    def find(self, module: nn.Module, heads: int, key_heads: int) -> Projections | None:
        """Every row of the query's layer."""
        layer = _child(module, self.queries)
        if not hasattr(module, "kv_b_proj") or not isinstance(layer, nn.Linear):
            return None
        return Projection(layer, torch.arange(layer.out_features)), None, None


FAMILIES: tuple[Family, ...] = (
    Separate(("q_proj", "k_proj", "v_proj")),
    Separate(("query", "key", "value")),
    Separate(("q", "k", "v")),
    Stacked("c_attn", transposed=True),
    Stacked("c_attn", grouped=True),
    Stacked("qkv_proj"),
    Interleaved("query_key_value"),
    Latent(("q_b_proj", "q_proj")),
)


def find_layout(module: nn.Module, heads: int, key_heads: int | None = None) -> AttentionLayout:
    """Return where an attention module of so many query and key heads keeps its parts."""
    keys = key_heads or _count_key_heads(module, heads)
    found = (family.find(module, heads, keys) for family in FAMILIES)
    query, key, value = next((parts for parts in found if parts is not None), (None, None, None))
    return AttentionLayout(heads, keys, query, key, value, _child(module, QUERY_NORMS), _child(module, KEY_NORMS))


def find_output(module: nn.Module) -> nn.Module:
    """Return the projection that an attention module ends with."""
    found = _child(module, OUTPUTS)
    require(found is not None, f"{type(module).__name__} must have an output projection", f"none of {OUTPUTS}")
    assert found is not None
    return found


def is_transposed(layer: Any) -> bool:
    """Whether a linear layer keeps its weight as [d_in, d_out], which transformers' Conv1D does."""
    return type(layer).__name__ == "Conv1D"


@torch.no_grad()
def offset_of(norm: Any) -> float:
    """Return what a norm adds to its weight before it multiplies: 1 for Gemma's norms, 0 for most."""
    like = torch.arange(1.0, norm.weight.numel() + 1).view(norm.weight.shape).to(norm.weight)
    held = {name: torch.zeros_like(part) for name, part in norm.named_parameters()}
    return float(bool(torch.func.functional_call(norm, held, (like,)).any()))


def count_heads(module: nn.Module, shared: int | None) -> int | None:
    """Return the number of query heads of an attention module: by its own word, else `shared`, the model's."""
    own: Any = getattr(module, "num_heads", None) or getattr(module, "num_attention_heads", None)
    size, projection = getattr(module, "head_dim", None), getattr(module, "q_proj", None)
    if size and isinstance(projection, nn.Linear):
        return projection.out_features // int(size)
    return int(own) if own else shared


def _count_key_heads(module: nn.Module, heads: int) -> int:
    config: Any = getattr(module, "config", None)
    groups = getattr(module, "num_key_value_groups", None)
    own = getattr(module, "num_key_value_heads", None) or getattr(config, "num_key_value_heads", None)
    return heads // int(groups) if isinstance(groups, int) and groups else int(own or heads)


def _child(module: nn.Module, names: tuple[str, ...]) -> nn.Module | None:
    found = (getattr(module, name, None) for name in names)
    return next((part for part in found if isinstance(part, nn.Module)), None)
