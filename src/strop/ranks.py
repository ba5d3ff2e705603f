"""Processes that torchrun started to share one piece of work: a calibration, an evaluation.

    torchrun --nproc-per-node 2 -m strop calibrate smollm2

Every rank runs the same program on the same data and takes its share of the model's passes; what they find is put
together in one order on all, so that all go on from the same numbers and end with the same result as one process, to
rounding. The first rank alone writes files and shows progress. Without torchrun there is one rank, which does all.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from strop._checks import require
from strop.errors import RankError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup

Found = TypeVar("Found")

TIMEOUT = timedelta(minutes=10)
"""How long a rank waits for the others: longer than any pass takes."""


@dataclass(frozen=True)
class Ranks:
    """Our place among those who share the work."""

    rank: int = 0
    size: int = 1
    group: Callable[[], ProcessGroup | None] = lambda: None
    """A weak reference: a group that is alive at exit, because somebody kept us, may abort the process."""

    @property
    def leads(self) -> bool:
        """Whether we are the one that writes files and shows progress."""
        return self.rank == 0

    def takes(self, index: int) -> bool:
        """Whether a piece of work, counted from 0, is ours when pieces are dealt out in turn."""
        return index % self.size == self.rank

    def owner(self, job: int) -> int:
        """Who does a job where there are a few, the longest first: the last rank takes all that are left over."""
        return min(job, self.size - 1)

    def does(self, job: int) -> bool:
        """Whether such a job is ours."""
        return self.owner(job) == self.rank

    def collect(self, count: int, measure: Callable[[int], Found]) -> list[Found]:
        """Return measure(0) … measure(count − 1), each made by one rank. They must be plain values, as in JSON."""
        parts = self.gather([measure(i) for i in range(self.rank, count, self.size)])
        return [parts[i % self.size][i // self.size] for i in range(count)]

    def tell(self, value: Found, of: int = 0) -> Found:
        """Return what one rank says."""
        return self.gather(value)[of]

    def agree(self, what: str, value: str) -> None:
        """Raise on every rank unless all say the same."""
        others = [rank for rank, one in enumerate(self.gather(value)) if one != value]
        require(not others, f"all ranks must have the same {what}", f"another on ranks {others}", error=RankError)

    def gather(self, value: Found) -> list[Found]:
        """Return every rank's value, in the order of ranks."""
        if self.size == 1:
            return [value]
        import torch
        import torch.distributed as dist

        mine = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        with explain_deaths():
            dist.all_gather(sizes, torch.tensor([len(mine)]), self.group())
            longest = max(map(int, sizes))
            found = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.size)]
            dist.all_gather(found, torch.cat([mine, mine.new_zeros(longest - len(mine))]), self.group())
        return [json.loads(bytes(one[: int(n)].tolist())) for one, n in zip(found, sizes, strict=True)]

    def add(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the sums of all ranks' tensors, the same bits on each."""
        if self.size == 1:
            return list(tensors)
        import torch
        import torch.distributed as dist

        flat = torch.cat([tensor.detach().double().flatten().cpu() for tensor in tensors])
        with explain_deaths():
            dist.all_reduce(flat, group=self.group())
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.reshape(like.shape).to(like) for part, like in zip(parts, tensors, strict=True)]


_HERE = [Ranks()]


def ranks_here() -> Ranks:
    """Return our place among those who share the work; alone where nobody joined."""
    return _HERE[-1]


def count_started() -> int:
    """How many processes torchrun started, 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1


@contextmanager
def join_ranks(timeout: timedelta = TIMEOUT) -> Iterator[Ranks]:
    """Share `strop.calibrate` and `strop.evaluate` inside the block with the other processes that torchrun started.

    All must make the same calls in the same order. Without torchrun nothing changes.

    Args:
        timeout: How long a rank waits for the others before it raises a RankError.

    Examples:
        >>> from strop.ranks import join_ranks
        >>> with join_ranks() as ranks:  # in a script that torchrun started, as many as it was told
        ...     print(ranks.rank, ranks.size)
        0 1
    """
    if count_started() == 1:
        yield Ranks()
        return
    import torch.distributed as dist
    import torch.distributed.nn.functional  # noqa: F401 - imported later, its default arguments would keep the group

    began = not dist.is_initialized()
    with explain_deaths():
        if began:
            dist.init_process_group("gloo", timeout=timeout)
        group = dist.new_group(backend="gloo", timeout=timeout)  # the default one may be of cards
    _HERE.append(Ranks(dist.get_rank(), dist.get_world_size(), weakref.ref(group)))
    try:
        yield _HERE[-1]
    finally:
        _HERE.pop()
        if began:  # after an error too: a thread of the group that is alive at exit may abort the process
            dist.destroy_process_group()


@contextmanager
def explain_deaths() -> Iterator[None]:
    """Turn what torch.distributed raises into an error of ours."""
    try:
        yield
    except RankError:
        raise
    except RuntimeError as error:
        told = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise RankError(
            f"every rank must answer within the group's timeout, but one died or fell behind: {told}. "
            "Look at the first rank that ended, and start again."
        ) from error
