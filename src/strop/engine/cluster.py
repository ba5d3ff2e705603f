"""Runs on a Ray cluster, or on a Ray of this machine's own (extra `ray`). Ray schedules; nothing here does.

    for config, result in Ray(address="auto").map(run, configs): ...

Ray's use of the network stays inside the cluster: its usage report is switched off unless the user asked for it.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from strop.engine.base import C, Failure, R, attempt
from strop.errors import ArgumentError, StropError


@dataclass(frozen=True)
class Ray:
    """A cluster at `address` ("auto": the one of this machine; None: start one here and stop it afterwards).

    Each run takes `cpus` cores, which is also torch's number of threads. A run whose worker or machine dies is tried
    `retries` times more; one that raises is not. A Ray that the caller has already joined is used and left running.
    """

    address: str | None = None
    cpus: int = 1
    retries: int = 2

    def __post_init__(self) -> None:
        for name, value, least in (("cpus", self.cpus, 1), ("retries", self.retries, 0)):
            if value < least:
                raise ArgumentError(f"{name} must be at least {least}, got {value}. Leave it out for the default.")

    def map(self, function: Callable[[C], R], configs: Iterable[C]) -> Iterator[tuple[C, R | Failure]]:
        """See Engine.map."""
        ray = _ray()
        ours = _join(ray, self.address)
        task = ray.remote(num_cpus=self.cpus, max_retries=self.retries)(attempt)
        pending: dict[object, C] = {}
        try:
            pending.update((task.remote(function, config), config) for config in configs)
            while pending:
                (ready,), _ = ray.wait(list(pending), num_returns=1)
                yield pending.pop(ready), _result(ray, ready)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)
            if ours:
                ray.shutdown()


def _ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return importlib.import_module("ray")


def _join(ray: ModuleType, address: str | None) -> bool:
    """Join or start a Ray; whether it was we who did."""
    if ray.is_initialized():
        return False
    try:
        _knock(address)
        ray.init(
            address=address, include_dashboard=None if address else False, log_to_driver=False, logging_level="error"
        )
    except (OSError, ValueError) as error:
        told = str(error).rstrip(".")
        raise StropError(
            f"address must lead to a Ray cluster, got {address!r}: {told}. Start one with: ray start --head"
        ) from error
    return True


def _knock(address: str | None) -> None:
    """Find out at once that nobody answers at host:port; Ray itself would try for minutes."""
    found = re.fullmatch(r"(?:ray://)?\[?([^/\]]+)\]?:(\d+)", address or "")
    if found:
        socket.create_connection((found[1], int(found[2])), timeout=5).close()


def _result(ray: ModuleType, reference: object) -> Any:
    """What the run gave; a worker or machine that is gone for good is a Failure like any other."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        gone = (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError)
        kind = "WorkerDied" if isinstance(error, gone) else type(error).__name__
        return Failure(kind, " ".join(re.sub(r"\x1b\[\d*m", "", str(error)).split()))
