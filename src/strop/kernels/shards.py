"""How a sequence is split over ranks, and the block in which attention is of the whole sequence.

    contiguous   rank 0 has the first n/R positions, rank 1 the next, …
    zigzag       2R equal pieces; rank r has the r-th from the start and the r-th from the end

Under a causal mask the last positions see most keys. Contiguous shards then give the last rank most of the work;
zigzag shards give every rank the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from strop._checks import require
from strop.errors import StateError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Span = tuple[int, int]
"""First position and end of a stretch of the sequence."""


@dataclass(frozen=True)
class Shards:
    """Which positions of a sequence each rank has.

    Make one with `zigzag` (for causal attention), `contiguous` or `of_sizes`. Every rank makes the same one.

    Args:
        spans: For each rank its stretches (first position, end), in the order in which its rows lie. Together they
            cover 0 … n − 1 once.

    Examples:
        >>> import torch
        >>> from strop import Shards
        >>> shards = Shards.zigzag(n=8, ranks=2)
        >>> shards.positions(rank=0), shards.positions(rank=1)
        (tensor([0, 1, 6, 7]), tensor([2, 3, 4, 5]))
        >>> tokens = torch.tensor([[10, 11, 12, 13, 14, 15, 16, 17]])
        >>> parts = [shards.take(tokens, rank, dim=1) for rank in range(2)]
        >>> parts[0]
        tensor([[10, 11, 16, 17]])
        >>> torch.equal(shards.join(parts, dim=1), tokens)
        True
    """

    spans: tuple[tuple[Span, ...], ...]

    def __post_init__(self) -> None:
        ends = [0, *(end for span in sorted(s for spans in self.spans for s in spans) for end in span)]
        whole = all(a == b for a, b in zip(ends[::2], ends[1::2], strict=False)) and ends == sorted(ends)
        require(whole and ends[-1] > 0, "spans must cover positions 0 … n − 1 once", self.spans)

    @classmethod
    def zigzag(cls, n: int, ranks: int) -> Shards:
        """Split n positions so that every rank has the same share of causal attention."""
        pieces = _cut(n, 2 * ranks)
        return cls(tuple((pieces[rank], pieces[-1 - rank]) for rank in range(ranks)))

    @classmethod
    def contiguous(cls, n: int, ranks: int) -> Shards:
        """Split n positions into one stretch for each rank, as even as may be."""
        return cls(tuple((piece,) for piece in _cut(n, ranks)))

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> Shards:
        """Give each rank one stretch of so many positions, the first rank the first."""
        return cls(tuple((piece,) for piece in pairwise((0, *accumulate(sizes)))))

    @property
    def ranks(self) -> int:
        """How many ranks share the sequence."""
        return len(self.spans)

    @cached_property
    def n(self) -> int:
        """How many positions there are."""
        return max(end for spans in self.spans for _, end in spans)

    def count(self, rank: int) -> int:
        """Return how many positions a rank has."""
        return sum(end - start for start, end in self.spans[rank])

    def positions(self, rank: int) -> Tensor:
        """Return a rank's positions [count], in the order of its rows: the `position_ids` of a model."""
        return torch.cat([torch.arange(*span) for span in self.spans[rank]])

    def take(self, tensor: Tensor, rank: int, dim: int = -2) -> Tensor:
        """Return a rank's part of a tensor that has the whole sequence along `dim`."""
        require(tensor.shape[dim] == self.n, f"tensor must have {self.n} positions along {dim}", tensor.shape[dim])
        return torch.cat([tensor.narrow(dim, start, end - start) for start, end in self.spans[rank]], dim)

    def join(self, parts: Sequence[Tensor], dim: int = -2) -> Tensor:
        """Put the parts of all ranks together again."""
        order = torch.cat([self.positions(rank) for rank in range(self.ranks)]).argsort()
        return torch.cat(list(parts), dim).index_select(dim, order.to(parts[0].device))


def _cut(n: int, pieces: int) -> list[Span]:
    require(pieces >= 1, "ranks must be at least 1", pieces)
    return list(pairwise(n * i // pieces for i in range(pieces + 1)))


@dataclass
class Traffic:
    """How many bytes this rank has sent to others."""

    sent: int = 0


@dataclass(frozen=True, eq=False)
class LocalShard:
    """This rank's part in a sequence that a group shares."""

    shards: Shards
    rank: int
    _group: weakref.ref[ProcessGroup]  # a group that a forgotten shard keeps alive at exit may abort the process
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def group(self) -> ProcessGroup:
        """The ranks, until torch.distributed destroys the group."""
        group = self._group()
        remedy = "Go backward before torch.distributed.destroy_process_group"
        require(group is not None, "the group of a shard must be alive", "a destroyed group", remedy, StateError)
        assert group is not None
        return group

    @property
    def spans(self) -> tuple[Span, ...]:
        """Our stretches."""
        return self.shards.spans[self.rank]

    @property
    def positions(self) -> Tensor:
        """Our positions [count]."""
        return self.shards.positions(self.rank)

    def take(self, tensor: Tensor, dim: int = -2) -> Tensor:
        """Return our part of a tensor that has the whole sequence along `dim`."""
        return self.shards.take(tensor, self.rank, dim)


_HERE: ContextVar[LocalShard | None] = ContextVar("strop_shard", default=None)
_OPEN: list[LocalShard] = []
"""All open blocks, of any thread: torch.compile can look at a list, not at a context."""


@contextmanager
def sharded(shards: Shards, group: ProcessGroup | None = None) -> Iterator[LocalShard]:
    """Attend over all ranks of a group inside the block, each of which has its shard of one sequence.

    Every rank calls `strop.attention` with its own rows of query, key and value, or runs a model on its own tokens
    with their `position_ids`. It gets the exact output, statistics and gradients of its rows, as if one process had
    all. All ranks must make the same calls in the same order. Keys and values go round a ring; no rank ever has all.

    `is_causal` goes by positions in the whole sequence. An `attn_mask` is of this rank's rows and the keys of the whole
    sequence in their order, [*batch, n_q or 1, n]. Gradients of parameters are those of this rank's rows: add them up
    over ranks, as data-parallel training does.

    Args:
        shards: Which positions each rank has; the same on every rank.
        group: The ranks, made by torch.distributed with any backend. None: all of them.

    Raises:
        StateError: torch.distributed was not initialised.
        RankError: Inside the block, when another rank died, did not answer within the group's timeout, or made
            another call.

    Examples:
        >>> import torch
        >>> import strop
        >>> import torch.distributed as dist
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun starts several
        >>> q, k, v = torch.randn(3, 1, 2, 8, 4)
        >>> with strop.sharded(strop.Shards.zigzag(n=8, ranks=1)) as here:
        ...     out = strop.attention(*map(here.take, (q, k, v)), is_causal=True, normaliser="adaptive")
        >>> torch.allclose(out, strop.attention(q, k, v, is_causal=True, normaliser="adaptive"), atol=1e-5)
        True
        >>> dist.destroy_process_group()
    """
    import torch.distributed as dist

    ready = dist.is_available() and dist.is_initialized()
    remedy = "Call torch.distributed.init_process_group, in a script started by torchrun"
    require(ready, "torch.distributed must be initialised", "no group", remedy, StateError)
    group = dist.group.WORLD if group is None else group
    assert group is not None
    require(group.size() == shards.ranks, f"shards must be of the group's {group.size()} ranks", shards.ranks)
    shard = LocalShard(shards, group.rank(), weakref.ref(group))
    before = _HERE.set(shard)
    _OPEN.append(shard)
    try:
        yield shard
    finally:
        _OPEN.remove(shard)
        _HERE.reset(before)


def shard_here() -> LocalShard | None:
    """Return the shard of the block that is open, if one is."""
    if not _OPEN:
        return None
    return _OPEN[-1] if torch.compiler.is_compiling() else _HERE.get()
