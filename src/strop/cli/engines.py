"""Where the runs of a study execute, as options: this machine's processes, or Ray."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from strop._checks import require

if TYPE_CHECKING:
    from strop.engine import Engine

F = TypeVar("F", bound=Callable[..., Any])


def engine_options(command: F) -> F:
    """Add --engine, --address and --workers."""
    for option in (
        click.option("--workers", type=click.IntRange(min=1), help="Processes, if local.  [default: one a core]"),
        click.option("--address", help="Ray cluster to join, as auto or host:port.  [default: start one here]"),
        click.option("--engine", "place", type=click.Choice(["local", "ray"]), default="local", show_default=True),
    ):
        command = option(command)
    return command


def choose_engine(place: str, address: str | None, workers: int | None) -> Engine:
    """The engine that the options name."""
    if place == "ray":
        from strop.engine.cluster import Ray

        require(workers is None, "--workers must be left out with --engine ray", workers, "Ray counts its own cores")
        return Ray(address)
    from strop.engine import Local

    require(address is None, "--address must come with --engine ray", address, "Add --engine ray")
    return Local(workers)
