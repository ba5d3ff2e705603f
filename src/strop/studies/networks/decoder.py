"""A small causal decoder in which the normaliser and the positions are values.

    x ← embedding(tokens)
    x ← x + O·[norm_after] attention(RMSNorm(x))      per layer, with a normaliser of its own
    x ← x + MLP(RMSNorm(x))                            GELU, `expansion` times the width
    logits = head(RMSNorm(x))

Positions: "rope" turns pairs of a query's and key's elements by angles that grow with the position (arXiv 2104.09864),
"alibi" adds −slope_h·(i − j) to the logits (arXiv 2108.12409), "nope" does nothing. `norm_after` is a LayerNorm on what
attention gives, over all heads, before O (arXiv 2504.02827). `smear` lets each key hold a learned share, per head, of
the key before it (arXiv 2209.11895), so that one layer can look up what followed a token; without it that takes two
layers, and hundreds to thousands of steps to be found.

The generator decides the model's weights first and then seeds what normalisers draw, so that models of all normalisers
start from the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Generator, Tensor, nn

from strop._checks import require, require_known
from strop.normalisers import Normaliser
from strop.sharpness import RowStats
from strop.studies.networks.attention import AttentionSummary, apply_attention, summarise_attention, weights_of_all_rows
from strop.studies.networks.positions import POSITIONS, Places
from strop.studies.networks.seeding import build_seeded


@dataclass(frozen=True)
class DecoderConfig:
    """The shape of a decoder.

    Args:
        vocabulary: how many tokens there are.
        width: numbers that stand for a token.
        heads: attention heads of a layer; they share the width.
        layers: how many layers.
        positions: "rope", "alibi" or "nope".
        norm_after: put a LayerNorm on what attention gives.
        smear: let each key hold a learned share of the key before it.
        expansion: width of the MLP as a multiple of `width`.

    Examples:
        >>> from strop.studies.networks import DecoderConfig
        >>> DecoderConfig(vocabulary=5, width=32, heads=2).head_dim
        16
    """

    vocabulary: int
    width: int = 64
    heads: int = 4
    layers: int = 2
    positions: Literal["rope", "nope", "alibi"] = "rope"
    norm_after: bool = False
    smear: bool = False
    expansion: int = 2

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "heads", "layers", "expansion"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        require_known("positions", self.positions, POSITIONS)
        fits = self.width % self.heads == 0 and (self.positions != "rope" or self.head_dim % 2 == 0)
        require(fits, "width must be an even multiple of heads", f"{self.width} for {self.heads} heads")

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.width // self.heads


class DecoderLayer(nn.Module):
    """Attention and MLP, each with a norm before it and a residual around it."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.before_attention, self.before_mlp = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.to_heads = nn.Linear(width, 3 * width, bias=False)
        self.after = nn.LayerNorm(width) if config.norm_after else nn.Identity()
        self.out = nn.Linear(width, width, bias=False)
        self.smear = nn.Parameter(torch.zeros(config.heads, 1)) if config.smear else None
        hidden = config.expansion * width
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.normaliser = Normaliser()  # replaced by `Decoder`

    def heads(self, x: Tensor, places: Places) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value [batch, heads, T, head_dim], turned by their places."""
        count, length, _ = x.shape
        parts = self.to_heads(self.before_attention(x)).view(count, length, 3 * self.config.heads, -1)
        q, k, v = parts.chunk(3, 2)
        k = k if self.smear is None else smear_keys(k, self.smear.sigmoid())
        q, k = places.turn(torch.cat([q, k], 2)).transpose(1, 2).chunk(2, 1)
        return q, k, v.transpose(1, 2)

    def forward(self, x: Tensor, places: Places) -> Tensor:
        """[batch, T, width] to the same."""
        q, k, v = self.heads(x, places)
        mixed = apply_attention(q, k, v, self.normaliser, self.config.head_dim**-0.5, places.bias, causal=True)
        x = x + self.out(self.after(mixed.transpose(1, 2).flatten(2)))
        return x + cast(Tensor, self.mlp(self.before_mlp(x)))

    def weights(self, x: Tensor, places: Places) -> tuple[RowStats, Tensor]:
        """Statistics and weights of one sequence x [1, T, width]."""
        q, k, _ = self.heads(x, places)
        return weights_of_all_rows(q, k, self.normaliser, self.config.head_dim**-0.5, places.bias, causal=True)


class Decoder(nn.Module):
    """Tokens to next-token logits, with any normaliser.

    Args:
        config: the shape.
        make: builds a normaliser; called once per layer.
        generator: decides the initial weights.

    Examples:
        >>> import torch
        >>> from strop.normalisers import SSMax
        >>> from strop.studies.networks import Decoder, DecoderConfig
        >>> config = DecoderConfig(vocabulary=5, width=8, heads=2, layers=1)
        >>> model = Decoder(config, lambda: SSMax(heads=2), torch.Generator().manual_seed(0))
        >>> tuple(model(torch.tensor([[2, 1, 3, 1]])).shape)
        (1, 4, 5)
    """

    def __init__(self, config: DecoderConfig, make: Callable[[], Normaliser], generator: Generator) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.before_head = nn.RMSNorm(config.width, eps=1e-6)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        draw_decoder_weights(self, generator)
        for layer in self.layers:
            layer.normaliser = build_seeded(make, generator)

    def forward(self, tokens: Tensor, asked: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """Logits [batch, T, vocabulary] of tokens [batch, T]; [answers, vocabulary] where a mask `asked` says so.

        Tokens stand at `positions` [batch, T], or at 0 … T − 1.
        """
        x, places = self._start(tokens, positions)
        for layer in self.layers:
            x = layer(x, places)
        x = x if asked is None else x[asked]
        out: Tensor = self.head(self.before_head(x))
        return out

    @torch.no_grad()
    def attention_stats(self, tokens: Tensor, positions: Tensor | None = None) -> list[AttentionSummary]:
        """Statistics of every layer, each field [batch, heads, T]; sequences go one by one, O(heads·T²) memory."""
        at = [None] * len(tokens) if positions is None else positions[:, None]
        found = [self._stats_of_one(row[None], one) for row, one in zip(tokens, at, strict=True)]
        return [_join_summaries([one[index] for one in found]) for index in range(self.config.layers)]

    def _stats_of_one(self, tokens: Tensor, positions: Tensor | None) -> list[AttentionSummary]:
        x, places = self._start(tokens, positions)
        found = []
        for layer in cast(Iterable[DecoderLayer], self.layers):
            rows, weights = layer.weights(x, places)
            found.append(summarise_attention(rows, weights, layer.normaliser))
            x = layer(x, places)
        return found

    def _start(self, tokens: Tensor, positions: Tensor | None) -> tuple[Tensor, Places]:
        x: Tensor = self.embedding(tokens)
        shape = self.config
        return x, Places.of(shape.positions, tokens.shape[1], shape.heads, shape.head_dim, x, positions)


def smear_keys(key: Tensor, share: Tensor) -> Tensor:
    """Keys [batch, T, heads, d] that hold a share of the key before them; the first has none before it."""
    before = torch.cat([key[:, :1], key[:, :-1]], 1)
    return torch.lerp(key, before, share)


def _join_summaries(parts: list[AttentionSummary]) -> AttentionSummary:
    rows = RowStats(*(torch.cat(field) for field in zip(*(part.rows for part in parts), strict=True)))
    return AttentionSummary(rows, torch.cat([p.top_weight for p in parts]), torch.cat([p.entropy for p in parts]))


@torch.no_grad()
def draw_decoder_weights(model: Decoder, generator: Generator) -> None:
    """Embedding ~ N(0, 1), matrices ~ N(0, 1/fan_in), those that write to x divided by sqrt(2·layers); biases 0."""
    model.embedding.weight.normal_(generator=generator)
    for name, layer in model.named_modules():
        if not isinstance(layer, nn.Linear):
            continue
        writes = name.endswith((".out", ".mlp.2"))
        depth = 2 * model.config.layers if writes else 1
        layer.weight.normal_(0.0, (layer.in_features * depth) ** -0.5, generator=generator)
        if layer.bias is not None:
            layer.bias.zero_()
