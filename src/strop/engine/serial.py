"""Runs in this process, one after the other: for debugging, for tests, and for a single run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from strop.engine.base import C, Failure, R, attempt


@dataclass(frozen=True)
class Serial:
    """No processes and no pickling. Threads are left as they are."""

    def map(self, function: Callable[[C], R], configs: Iterable[C]) -> Iterator[tuple[C, R | Failure]]:
        """See Engine.map; results come in the order of the configs."""
        for config in configs:
            yield config, attempt(function, config)
