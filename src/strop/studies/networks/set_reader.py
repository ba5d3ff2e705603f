"""The single-head retriever of arXiv 2410.01104 (`retriever.py`) with any normaliser and any query.

    h_i = psi_x(x_i)        h_q = psi_q(query)
    a   = normaliser(scale * (Q h_q) . (K h_i))
    z   = sum_i a_i V h_i,  class logits = phi(z),  or phi(LayerNorm(z)) with `norm_after`

The norm after attention is the remedy of arXiv 2504.02827: the variance of z falls as n grows, and a norm puts it back.
With the same generator the weights start the same whatever the normaliser is, and equal those of `Retriever` where the
query is one number; a normaliser keeps its own start.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from strop._checks import require
from strop.normalisers import Normaliser
from strop.studies.networks.attention import AttentionSummary, apply_attention, summarise_attention, weights_of_one_row
from strop.studies.networks.retriever import Retriever, RetrieverConfig, draw_retriever_weights, mlp


@dataclass(frozen=True)
class SetReaderConfig(RetrieverConfig):
    """The shape of a set reader: that of a retriever, and two settings more.

    Args:
        query_features: numbers of a query.
        norm_after: put a LayerNorm on what attention gives.

    Examples:
        >>> from strop.studies.networks import SetReaderConfig
        >>> SetReaderConfig(features=26, query_features=16, width=64).classes
        10
    """

    query_features: int = 1
    norm_after: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.query_features >= 1, "query_features must be at least 1", self.query_features)


class SetReader(Retriever):
    """Items and a query to class logits, with any normaliser; its parameters train with the rest.

    Args:
        config: the shape.
        normaliser: what turns logits into weights.
        generator: decides the initial weights; without one they are torch's own draw.

    Examples:
        >>> import torch
        >>> from strop.normalisers import Entmax15
        >>> from strop.studies.networks import SetReader, SetReaderConfig
        >>> model = SetReader(SetReaderConfig(width=8), Entmax15(), torch.Generator().manual_seed(0))
        >>> tuple(model(items=torch.zeros(2, 5, 11), query=torch.zeros(2, 1)).shape)
        (2, 10)
    """

    config: SetReaderConfig

    def __init__(self, config: SetReaderConfig, normaliser: Normaliser, generator: Generator | None = None) -> None:
        super().__init__(config)
        self.query = mlp(config.query_features, config.width, config.width, config.approximate)
        self.after = nn.LayerNorm(config.width) if config.norm_after else nn.Identity()
        if generator is not None:
            draw_retriever_weights(self, generator)
        self.normaliser = normaliser  # last, so that its own layers are not initialised as the model's are

    def forward(self, items: Tensor, query: Tensor) -> Tensor:
        """Class logits: items [sets, n, features], query [sets, query_features] -> [sets, classes]."""
        q, k, hidden = self._heads(items, query)
        mixed = apply_attention(q, k, hidden, self.normaliser, self.config.scale, None, causal=False)[:, 0, 0]
        out: Tensor = self.readout(self.after(self.to_value(mixed)))
        return out

    def attention_weights(self, items: Tensor, query: Tensor) -> Tensor:
        """Weights of the items: [sets, n], without gradient."""
        q, k, _ = self._heads(items, query)
        return weights_of_one_row(q, k, self.normaliser, self.config.scale)[1][:, 0]

    @torch.no_grad()
    def attention_stats(self, items: Tensor, query: Tensor) -> AttentionSummary:
        """Statistics of each set's one row, every field [sets]."""
        q, k, _ = self._heads(items, query)
        rows, weights = weights_of_one_row(q, k, self.normaliser, self.config.scale)
        return summarise_attention(rows.map(lambda field: field[:, 0, 0]), weights[:, 0], self.normaliser)

    def _heads(self, items: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query [sets, 1, 1, width], keys and hidden items [sets, 1, n, width].

        V is applied to the one weighted sum instead of to every item, and so is Kᵀ to the one query, unless the
        normaliser looks at query or keys itself.
        """
        hidden = self.item(items)[:, None]
        q = self.to_query(self.query(query))[:, None, None]
        if self._reads_logits_alone():
            return q @ self.to_key.weight, hidden, hidden
        return q, self.to_key(hidden), hidden

    def _reads_logits_alone(self) -> bool:
        return self.normaliser.logits_alone and not self.normaliser.changes_query
