"""Tensors that go round the ranks of a group: what each rank has visits every other, and may come home changed.

    step 0      every rank computes with its own block while it sends that block on and receives the one before
    step t      it computes with the block of rank r − t, and so on for all ranks

A rank so holds its own block, the one that it computes with and the one that arrives: O(n / ranks). Each block is sent
ranks − 1 times. In a backward pass the gradient of a block follows it one step behind, each rank adding its part; the
first to add is the block's first host and the last the rank at home, so gradients are sent ranks − 1 times too.

A rank that dies ends the wait of its neighbours with an error, at once or after the group's timeout; they leave in
turn, and the error goes round.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from strop._checks import require
from strop.errors import RankError
from strop.kernels.shards import LocalShard
from strop.ranks import explain_deaths

Contribute = Callable[[int, list[Tensor]], list[Tensor]]
"""From a rank and its block to what we add to the block's gradients."""


class Ring:
    """The way round for tensors [*, positions, width], of whose positions each rank has its shard's."""

    def __init__(self, shard: LocalShard) -> None:
        self.shard, self.group = shard, shard.group
        size = shard.shards.ranks
        self.next, self.before = (dist.get_global_rank(self.group, (shard.rank + way) % size) for way in (1, -1))

    def agree(self, call: str) -> None:
        """Raise on every rank unless all are about to make the same call."""
        mine = torch.tensor([zlib.crc32(call.encode())])
        with explain_deaths():
            found = [torch.zeros_like(mine) for _ in range(self.shard.shards.ranks)]
            dist.all_gather(found, mine, self.group)
        others = [rank for rank, one in enumerate(found) if one != mine]
        rule = f"all ranks must make the same call, here {call}"
        require(not others, rule, f"another on ranks {others}", error=RankError)

    def visit(self, tensors: Sequence[Tensor]) -> Iterator[tuple[int, list[Tensor]]]:
        """Yield every rank and its tensors, ours first; the next ones arrive while the caller computes."""
        ranks, rank = self.shard.shards.ranks, self.shard.rank
        held = [tensor.contiguous() for tensor in tensors]
        for step in range(ranks):
            owner = (rank - step) % ranks
            under_way = None if step == ranks - 1 else self._pass_on(held, (owner - 1) % ranks)
            yield owner, held
            if under_way is not None:
                held = under_way()

    def gather(self, tensors: Sequence[Tensor], contribute: Contribute) -> list[Tensor]:
        """Let tensors visit every rank, and return the sum of what all ranks contribute to ours."""
        ranks, rank = self.shard.shards.ranks, self.shard.rank
        own: list[Tensor] = []
        arriving: Callable[[], list[Tensor]] | None = None
        for step, (owner, block) in enumerate(self.visit(tensors)):
            found = contribute(owner, block)
            if step == 0:
                own = found
                continue
            if arriving is not None:
                found = _add(found, arriving())
            arriving = self._pass_on(found, (rank - step - 1) % ranks)
        return own if arriving is None else _add(own, arriving())

    def _pass_on(self, tensors: list[Tensor], owner: int) -> Callable[[], list[Tensor]]:
        """Begin to send tensors on and to receive those of `owner`; return the wait for both."""
        count = self.shard.shards.count(owner)
        coming = [tensor.new_empty(*tensor.shape[:-2], count, tensor.shape[-1]) for tensor in tensors]
        sends = [dist.P2POp(dist.isend, tensor, self.next, self.group) for tensor in tensors if tensor.numel()]
        takes = [dist.P2POp(dist.irecv, tensor, self.before, self.group) for tensor in coming if tensor.numel()]
        self.shard.traffic.sent += sum(tensor.nbytes for tensor in tensors)
        with explain_deaths():
            works = dist.batch_isend_irecv(sends + takes) if sends or takes else []

        def wait() -> list[Tensor]:
            with explain_deaths():
                for work in works:
                    work.wait()
            assert sends is not None  # holds what is sent until it has left
            return coming

        return wait


def _add(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    return [a + b for a, b in zip(one, other, strict=True)]
