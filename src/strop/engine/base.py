"""The interface of every engine, and what a run that failed leaves behind."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True)
class Failure:
    """Why a run gave no result. It takes the result's place, so one bad run never ends the others."""

    kind: str
    message: str
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return what can be said of an exception, as plain text that travels between processes."""
        return cls(type(error).__name__, str(error), "".join(traceback.format_exception(error)))

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


class Engine(Protocol):
    """A place where runs execute."""

    def map(self, function: Callable[[C], R], configs: Iterable[C]) -> Iterator[tuple[C, R | Failure]]:
        """Yield (config, result or Failure) for every config as the runs end, in any order.

        `function` is importable from a module, and configs and results can be pickled: they cross processes.
        Closing the iterator, or an exception in its consumer, stops the runs under way.
        """
        ...


def attempt(function: Callable[[C], R], config: C) -> R | Failure:
    """Run once; an exception, sys.exit() among them, becomes a Failure."""
    try:
        return function(config)
    except (Exception, SystemExit) as error:
        return Failure.of(error)
