"""What an edge does to a model's weights, whatever its form: the one thing that baking and export go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from strop._checks import require
from strop.errors import BakeError

if TYPE_CHECKING:
    from torch import Tensor

    from strop.calibration.edge import Edge


class Fold(NamedTuple):
    """What an edge does to the weights of one attention module; None: nothing.

    Attributes:
        query: Factors of the query before its rotation, and after its norm where it has one: [heads, d] or [heads, 1].
        norm: Factors of a query norm's weight [d] that the heads share.
        low_rank: up [heads·d, rank] and down [rank, d_in], which make the query projection W + up·down.
        outputs: Factors of what each head gives to the output projection [heads].
    """

    query: Tensor | None = None
    norm: Tensor | None = None
    low_rank: tuple[Tensor, Tensor] | None = None
    outputs: Tensor | None = None


def folds_of(edge: Edge) -> dict[str, Fold]:
    """Return attention module → what to do to its weights, or raise for an edge that depends on the input."""
    rule = "the edge's form must not depend on the input for baking"
    remedy = "Keep the edge as a file and use strop.sharpened, or calibrate with another form"
    require(edge.bakeable, rule, repr(edge.form), remedy, BakeError)
    outputs = {name: 1.0 + scales for name, scales in edge.outputs.items()}
    return {
        name: Fold(query=rule.at(1, 0.0)[:, None], outputs=outputs.get(name))
        for name, rule in edge.normalisers().items()
    }
