"""Runs in processes of this machine, one a core.

Each worker is a spawned multiprocessing.Process with a pipe of its own, so that a worker that dies is known
by the run it was given (a broken executor fails every pending run) and can be killed at once on Ctrl-C.
A worker leaves by itself when its parent is gone, however that ended.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic

from strop.engine.base import C, Failure, R, attempt
from strop.errors import ArgumentError


@dataclass(frozen=True)
class Local:
    """`workers` processes (default: one for every core at hand), each with `threads` threads for torch."""

    workers: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        for name, value in (("workers", self.workers), ("threads", self.threads)):
            if value is not None and value < 1:
                raise ArgumentError(f"{name} must be at least 1, got {value}. Leave it out for the default.")

    def map(self, function: Callable[[C], R], configs: Iterable[C]) -> Iterator[tuple[C, R | Failure]]:
        """See Engine.map. A worker that dies is that run's Failure; a fresh one takes its place."""
        crew = _Crew(function, iter(configs), self.workers or cores(), self.threads)
        try:
            crew.fill()
            while crew.busy:
                ended = crew.next()
                crew.fill()  # before the consumer has its turn, so that no core waits for it
                yield ended
        finally:
            crew.kill()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Crew(Generic[C, R]):
    """The workers of one map: those that are busy, with what, and those that wait."""

    def __init__(self, function: Callable[[C], R], pending: Iterator[C], size: int, threads: int) -> None:
        self.function, self.pending, self.size, self.threads = function, pending, size, threads
        self.busy: dict[object, tuple[_Worker, C]] = {}  # by the pipe that will hold the result
        self.idle: list[_Worker] = []

    def fill(self) -> None:
        """Give every free worker something to do, as long as there is something."""
        for config in islice(self.pending, self.size - len(self.busy)):
            worker = self.idle.pop() if self.idle else _Worker(self.function, self.threads)
            self.busy[worker.pipe] = worker, config
            worker.give(config)

    def next(self) -> tuple[C, R | Failure]:
        """Wait until a run ends."""
        pipe = wait([worker.pipe for worker, _ in self.busy.values()])[0]
        worker, config = self.busy.pop(pipe)
        result: R | Failure = worker.result()
        if worker.alive:
            self.idle.append(worker)
        return config, result

    def kill(self) -> None:
        """End every worker now."""
        for worker in [*self.idle, *(worker for worker, _ in self.busy.values())]:
            worker.kill()


class _Worker:
    """One spawned process that runs what it is given until it is killed."""

    def __init__(self, function: Callable[[Any], Any], threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs, function, threads), daemon=True)
        self.alive = True
        try:
            self.process.start()
        except (AttributeError, TypeError) as error:  # what pickle raises for a lambda or a local function
            raise ArgumentError(
                f"function must be importable from a module, got {function!r}. Move it there."
            ) from error
        finally:
            theirs.close()

    def give(self, config: object) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it died while starting: result() tells
            self.pipe.send(config)

    def result(self) -> Any:
        """Return what the worker sends, or the Failure that its death is."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.kill()
            return Failure("WorkerDied", _how(self.process.exitcode))

    def kill(self) -> None:
        self.alive = False
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _how(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        return f"the worker process was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"the worker process left with exit code {exitcode}"


def _serve(pipe: Connection, function: Callable[[Any], Any], threads: int) -> None:
    """Body of a worker: run each config that arrives and send back its result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent alone decides
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _limit_threads(threads)
    while True:
        try:
            config = pipe.recv()
        except EOFError:
            return
        result = attempt(function, config)
        try:
            pipe.send(result)
        except Exception as error:  # a result that cannot be pickled
            pipe.send(Failure.of(error))


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _limit_threads(threads: int) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    if "torch" in sys.modules:  # already imported with the function's module: the variables come too late
        sys.modules["torch"].set_num_threads(threads)
