"""Options that mean the same in every verb: use them as decorators.

@click.command(epilog=examples("strop probe smollm2   # a model that installs as a package"))
@options.json_flag
@options.out("report.html")
def command(as_json: bool, out: Path) -> None: ...
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from strop._checks import require

F = TypeVar("F", bound=Callable[..., Any])

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of tables.")
seed = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all randomness.")
threads = click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=None,
    help="Threads of torch.  [default: as torch chooses]",
)


def out(default: str, text: str = "Where to write the results.") -> Callable[[F], F]:
    """Return the --out option with its default."""
    return click.option("--out", type=click.Path(path_type=Path), default=default, show_default=True, help=text)


def check_folder(out: Path) -> None:
    """Find out now, not after an hour, that nothing can be written there."""
    from strop.records import write_text

    probe = out / ".writable"
    write_text(probe, "")
    probe.unlink(missing_ok=True)


def examples(*lines: str) -> str:
    """Return an epilog of worked examples that click leaves as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class Integers(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """A comma-separated list of integers of at least `minimum`: 128,512,2048."""

    name = "integers"

    def __init__(self, minimum: int = 1) -> None:
        self.minimum = minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse, or fail with what was wrong."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"must be integers between commas, got {value!r}. For example 128,512,2048.", param, ctx)
        if min(numbers) < self.minimum:
            self.fail(f"must be at least {self.minimum}, got {min(numbers)}.", param, ctx)
        return numbers


def refuse(names: tuple[str, ...], with_: str) -> None:
    """Raise if any of these options was given: with this one they would do nothing."""
    context = click.get_current_context()
    given = [name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    require(not given, f"{flags} must be left out with {with_}", "a value that would do nothing")


def use_threads(count: int | None) -> None:
    """Apply --threads to torch, if it was given."""
    if count is not None:
        import torch

        torch.set_num_threads(count)
