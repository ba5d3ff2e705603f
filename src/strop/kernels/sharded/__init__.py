"""Attention over ranks: keys and values are split over a torch.distributed group, and go round a ring.

    shards.py (beside this package)   which positions each rank has; `sharded`, the block in which attention is of all
    ring.py                           blocks that go round while we compute, and gradients that follow them home
    pieces.py                         our rows × a visitor's keys, as pieces that kernels for one process can run
    blocks.py, piece_gradients.py     one piece, forward and back
    rounds.py                         the round before β and the one after

Each rank gets its rows' exact output, statistics and gradients, for the whole temperature family, in O(n / ranks)
memory.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from strop.kernels.implementation import Implementation
from strop.kernels.mask import LazyMask, Mask
from strop.kernels.request import Request
from strop.kernels.sharded.blocks import Attend, Rule
from strop.kernels.sharded.ring import Ring
from strop.kernels.sharded.rounds import attend_rows, count_keys, measure_rows
from strop.kernels.tracing import is_transformed
from strop.normalisers import Temperature
from strop.normalisers.fusion import TEMPERATURES
from strop.sharpness import RowStats, upcast


class Sharded(Implementation):
    """One round of the ring, or two where β or the caller needs the statistics.

    Args:
        attend: Attention in one process, which runs the pieces.
    """

    def __init__(self, attend: Attend) -> None:
        self.attend = attend

    def find_obstacle(self, request: Request) -> str | None:
        """Say what cannot be split over ranks."""
        shard, kind = request.shard, type(request.normaliser).__name__
        if shard is None:
            return "no block of strop.sharded is open"
        if not isinstance(request.normaliser.fusion(), TEMPERATURES):
            return f"{kind} is not of the temperature family, and other rules do not merge over ranks"
        if request.dropout_p:
            return "attention over ranks has no dropout"
        if torch.compiler.is_compiling() or is_transformed():
            return "what goes over ranks cannot be traced or transformed"
        own = shard.shards.count(shard.rank)
        if request.n_k != own:
            return f"this rank's shard has {own} positions, and the key has {request.n_k}"
        if request.mask.diagonal is not None and request.n_q != own:
            return f"this rank's shard has {own} positions, and the query of causal attention has {request.n_q}"
        return None

    def run(self, request: Request) -> tuple[Tensor, RowStats | None]:
        """Attend."""
        normaliser, shard = request.normaliser, request.shard
        assert isinstance(normaliser, Temperature)
        assert shard is not None
        rule = Rule(shard, _widen(request.mask, shard.shards.n), request.scale, request.softcap, self.attend)
        Ring(shard).agree(_describe(request))
        counts = count_keys(rule, request.n_q, request.query.device)
        query = normaliser.prepare_query(upcast(request.query), counts) if normaliser.changes_query else request.query
        rows = request.query.shape[:-1]
        stats = measure_rows(rule, query, request.key) if request.return_stats or normaliser.uses == "entropy" else None
        known = RowStats.of_counts(counts.expand(rows), upcast(query).dtype) if stats is None else stats
        beta = normaliser.inverse_temperature(known).expand(rows).to(upcast(query).dtype)
        out, total = attend_rows(rule, query, request.key, request.value, beta)
        share = normaliser.sink_share(lambda: total)
        out = out if share is None else out * share[..., None]
        return out.to(request.query.dtype), stats if request.return_stats else None


def _widen(mask: Mask, n: int) -> Mask:
    """Give every table of a mask a column for each key, so that keys can be taken from it."""
    if isinstance(mask, LazyMask):
        return mask
    keep, bias = (None if t is None else t.expand(*t.shape[:-1], n) for t in (mask.keep, mask.bias))
    return replace(mask, keep=keep, bias=bias)


def _describe(request: Request) -> str:
    """Say what must be the same on all ranks."""
    key, value, normaliser = request.key, request.value, request.normaliser
    rule = f"{type(normaliser).__name__}{' with statistics' if request.return_stats else ''}"
    causal = "causal " if request.mask.diagonal is not None else ""
    sizes = [*key.shape[:-2], "n", *key.shape[-1:], value.shape[-1]]
    return f"{causal}{rule} of {request.query.shape[:-2]} on {sizes}, {key.dtype}, scale {request.scale:g}"
