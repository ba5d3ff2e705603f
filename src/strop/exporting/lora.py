"""An edge as exact low-rank changes of weights, W + B·A, without a decomposition.

    query     rows of changed heads: A holds those rows of W, B puts (factor − 1) times each back in its place;
              an edit W + up·down is such a change already: A holds down, B factor·up
    output    columns of changed heads: A picks the head's inputs times (factor − 1), B holds those columns of W

So the rank is the size of a head for every head that changes. Under a limit the heads that change least are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from strop.edges.place import Placement
from strop.exporting.job import Job
from strop.patching.layout import Projection, is_transposed


class LowRank(NamedTuple):
    """A change of one layer's weight by up·down, [d_out, rank]·[rank, d_in], and of its bias [d_out]."""

    up: Tensor
    down: Tensor
    bias: Tensor | None = None


class LowRanks(NamedTuple):
    """Changes by the names of layers, and the heads that were left out: (attention module, part, head)."""

    queries: dict[str, LowRank]
    outputs: dict[str, LowRank]
    dropped: list[tuple[str, str, int]]

    @property
    def rank(self) -> int:
        """The largest rank of all."""
        return max((len(change.down) for change in (self.queries | self.outputs).values()), default=0)


@torch.no_grad()
def find_changes(job: Job) -> LowRanks:
    """Return what an edge adds to each layer's weight, within the job's rank."""
    names, max_rank, found = job.layers, job.max_rank, LowRanks({}, {}, [])
    for module, place in job.places.items():
        if place.rows is not None or place.low_rank is not None:
            change, dropped = _change_query(place, max_rank)
            found.queries[names[place.query.layer]] = change
            found.dropped.extend((module, "query", head) for head in dropped)
        if place.columns is not None:
            change, dropped = _change_output(place, place.columns, max_rank)
            found.outputs[names[place.output]] = change
            found.dropped.extend((module, "output", head) for head in dropped)
    return found


def _change_query(place: Placement, limit: int | None) -> tuple[LowRank, list[int]]:
    query, heads = place.query, place.layout.heads
    weight = query.weight(heads).flatten(0, 1).float()
    factors = torch.ones(len(weight)) if place.rows is None else place.rows.float()
    edit = place.low_rank or (weight.new_zeros(len(weight), 0), weight.new_zeros(0, weight.shape[1]))
    room = None if limit is None else limit - len(edit[1])
    at, dropped = _choose(factors, weight, heads, room)
    kept = torch.zeros(len(weight), dtype=torch.bool).index_fill(0, at, True)
    factors = torch.where(kept, factors, 1.0)
    up = torch.cat([torch.eye(len(weight))[:, at] * (factors[at] - 1), factors[:, None] * edit[0].float()], 1)
    bias = query.bias(heads)
    more = None if bias is None or place.rows is None else _spread(query, (factors - 1) * bias.flatten().float())
    return LowRank(_spread(query, up), torch.cat([weight[at], edit[1].float()]), more), dropped


def _change_output(place: Placement, columns: Tensor, limit: int | None) -> tuple[LowRank, list[int]]:
    weight = (place.output.weight if is_transposed(place.output) else place.output.weight.T).float()  # [d_in, d_out]
    factors = columns.float()
    at, dropped = _choose(factors, weight, place.layout.heads, limit)
    return LowRank(weight[at].T, torch.eye(len(weight))[at] * (factors[at] - 1)[:, None]), dropped


def _choose(factors: Tensor, weight: Tensor, heads: int, room: int | None) -> tuple[Tensor, list[int]]:
    """Which rows change, and the heads that are left out: those whose rows change least, until the others fit."""
    changes = (factors != 1).view(heads, -1)
    size = ((factors - 1)[:, None] * weight).reshape(heads, -1).norm(dim=1)
    left = len(weight) if room is None else room
    kept, dropped = torch.zeros_like(changes), []
    for head in size.argsort(descending=True).tolist():
        count = int(changes[head].sum())
        if count <= left:
            kept[head], left = changes[head], left - count
        else:
            dropped.append(head)
    return kept.flatten().nonzero()[:, 0], sorted(dropped)


def _spread(query: Projection, rows: Tensor) -> Tensor:
    """Rows of the query among all that its layer gives, zeros for keys and values in a fused one."""
    whole = rows.new_zeros(query.layer.weight.shape[1 if query.transposed else 0], *rows.shape[1:])
    whole[query.rows] = rows
    return whole
