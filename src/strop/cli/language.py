"""What the verbs about language models share: opening a model with its head, and the options for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from strop.cli import output

if TYPE_CHECKING:
    from torch import nn

    from strop.tasks.answers import Reader

F = TypeVar("F", bound=Callable[..., Any])


def model_options(function: F) -> F:
    """Add --dtype, --trust-remote-code and --runs."""
    decorators = (
        click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True),
        click.option("--trust-remote-code", is_flag=True, help="Let a hub model run code of its own."),
        click.option(
            "--runs",
            type=click.Path(path_type=Path),
            default="runs",
            show_default=True,
            help="Where records are kept.",
        ),
    )
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def opened(name: str, dtype: str, trust_remote_code: bool, quiet: bool) -> tuple[str, nn.Module, Reader]:
    """Return (the model's name, the model with its language head, its reader)."""
    from strop.hf.sources import find

    with output.progress(f"opening {name}", None, quiet=quiet) as bar:
        source = find(name, lambda words: bar.update(text=words))
        from strop.hf.load import load  # seconds of imports: a wrong name is told before them
        from strop.tasks.answers import Reader

        model, tokeniser = load(source, dtype, trust_remote_code, head=True)
    return source.name, model, Reader(tokeniser, source.bos)


def readable(lengths: tuple[int, ...], model: nn.Module) -> tuple[int, ...]:
    """Return the lengths of prose that the model has positions for, or the most it has."""
    from strop.hf.load import longest

    most = longest(model) or max(lengths)
    found = tuple(n for n in lengths if n <= most) or (most,)
    if found != tuple(lengths):
        output.note(f"The model has {most:,} positions: prose is read at {', '.join(map(str, found))} tokens.")
    return found


def words(text: str | None) -> tuple[str, ...]:
    """Split an option of words between commas."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())
