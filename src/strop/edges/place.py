"""Where an edge's folds go in a model: the rows, norms and columns that baking changes and that adapters stand beside.

rows        factors of what the query projection gives, W_q + up·down and its bias
norm        factors of what a query norm gives. A norm that follows the projection would undo any scale before it, so
            factors go to the norm's weight: one for every dimension of every head (OLMo 2, Cohere), or one that the
            heads share (Qwen 3, Gemma 3), which takes only what the heads have in common
low rank    added to the query projection before those factors; a norm that follows does no harm to it
columns     factors of what the output projection takes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.edges.fold import Fold, folds_of
from strop.errors import BakeError
from strop.patching.identity import heads_of
from strop.patching.layout import AttentionLayout, Projection, find_layout, find_output, is_transposed

if TYPE_CHECKING:
    from strop.edges.edge import Edge

_REMEDY = "Use strop.sharpened instead"


class Placement(NamedTuple):
    """One attention module, and what an edge does to each of its parts; None: nothing.

    Attributes:
        layout: Where the module keeps its parts.
        output: Its output projection.
        rows: Factors of what the query projection gives [heads·d].
        norm: Factors of what the query norm gives, in the shape of its weight.
        low_rank: up [heads·d, rank] and down [rank, d_in], added to the query projection before `rows`.
        columns: Factors of what the output projection takes [heads·d_v].
    """

    layout: AttentionLayout
    output: Any
    rows: Tensor | None = None
    norm: Tensor | None = None
    low_rank: tuple[Tensor, Tensor] | None = None
    columns: Tensor | None = None

    @property
    def query(self) -> Projection:
        """The query projection, which is known where anything is done to the query."""
        assert self.layout.query is not None
        return self.layout.query


def place_edge(edge: Edge, model: nn.Module) -> dict[str, Placement]:
    """Return attention module → what to do to its parts, or raise with the reason why that is impossible."""
    folds = folds_of(edge)
    edge.check(model)
    return place_folds(folds, model)


def place_folds(folds: dict[str, Fold], model: nn.Module) -> dict[str, Placement]:
    """Return attention module → what to do to its parts."""
    folds = {name: _without_ones(fold) for name, fold in folds.items()}
    if any(fold.query is not None or fold.norm is not None for fold in folds.values()):
        _refuse_soft_cap(model)
    modules = dict(model.named_modules())
    return {name: _place(folds[name], modules[name], heads, name) for name, heads in heads_of(model).items()}


def _without_ones(fold: Fold) -> Fold:
    """A fold that says None where its factors do nothing."""
    factors = {"query": fold.query, "norm": fold.norm, "outputs": fold.outputs}
    return fold._replace(
        **{name: None for name, each in factors.items() if each is not None and bool((each == 1).all())}
    )


def _refuse_soft_cap(model: nn.Module) -> None:
    config: Any = getattr(model, "config", None)
    capped = config is not None and getattr(config.get_text_config(), "attn_logit_softcapping", None)
    rule = "the model's logits must be linear in the query for baking"
    require(not capped, rule, f"a soft cap at {capped}", f"{_REMEDY}, or scale outputs alone (--form none)", BakeError)


def _place(fold: Fold, module: nn.Module, heads: int, name: str) -> Placement:
    layout = find_layout(module, heads)
    asked = not (fold.query is None and fold.norm is None and fold.low_rank is None)
    rule = f"{name} must keep its query weights where they are known for baking"
    require(layout.query is not None or not asked, rule, "a layout of no known family", _REMEDY, BakeError)
    output = find_output(module)
    found = Placement(layout, output, low_rank=fold.low_rank, columns=_columns(output, fold.outputs, name))
    factors = _factors(fold, layout)
    if factors is None:
        return found
    weight = layout.query_weight
    if weight is None:
        return found._replace(rows=factors.flatten())
    if weight.numel() != factors.numel():
        factors = _in_common(factors, name)
    rule = f"{name} must have a query norm of a known size for baking"
    require(weight.numel() == factors.numel(), rule, f"{weight.numel()} numbers", _REMEDY, BakeError)
    return found._replace(norm=factors.reshape(weight.shape))


def _factors(fold: Fold, layout: AttentionLayout) -> Tensor | None:
    """The factor of every dimension of every head's query, [heads, d]."""
    if layout.query is None or (fold.query is None and fold.norm is None):
        return None
    factors = torch.ones(layout.heads, len(layout.query.rows) // layout.heads)
    for each in (fold.query, fold.norm):
        factors = factors if each is None else factors * each
    return factors


def _in_common(factors: Tensor, name: str) -> Tensor:
    rule = f"{name} must have one β for all its heads for baking, since its query norm is shared by them"
    same = bool(torch.isclose(factors, factors[:1], rtol=1e-6).all())
    actual = f"β from {float(factors.min()):.3g} to {float(factors.max()):.3g}"
    require(same, rule, actual, f"{_REMEDY}, or calibrate with the form layer or pairs", BakeError)
    return factors[0]


def _columns(output: Any, scales: Tensor | None, name: str) -> Tensor | None:
    if scales is None:
        return None
    linear = isinstance(output, nn.Linear) or is_transposed(output)
    require(linear, f"{name} must end in a linear layer for baking", type(output).__name__, _REMEDY, BakeError)
    width = output.weight.shape[0 if is_transposed(output) else 1]
    return scales.repeat_interleave(width // len(scales))
