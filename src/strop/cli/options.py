"""Options of the verbs. What a verb's function says of an argument, its option says too: one default, one sentence.

@click.command(epilog=examples("strop probe smollm2   # a model that installs as a package"))
@click.argument("model")
@options.of(probe, "lengths", "text", "samples")
@options.json_flag
def command(model: str, as_json: bool, **given: Any) -> None: ...
"""

from __future__ import annotations

import inspect
import itertools
import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from strop._checks import nearest_path, require
from strop._progress import LOUDNESS
from strop.cli import completion
from strop.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of tables.")
force = click.option("--force", is_flag=True, help="Replace what --out names, if it is there already.")
model = click.argument("model", shell_complete=completion.complete_models)
threads = click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=None,
    help="Threads of torch.  [default: as torch chooses]",
)

device = click.option(
    "--device",
    default="auto",
    show_default=True,
    help="cpu, cuda, cuda:1, mps, …; auto is a card where there is one; spread is over all cards, memory and disk.",
)

dtype = click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    default="auto",
    show_default=True,
    help="Of the weights; auto is float32 on the CPU, elsewhere as they were saved.",
)


def _set_loudness(value: int) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(_: click.Context, __: click.Parameter, given: bool) -> None:
        if given:
            LOUDNESS.set(value)

    return callback


def loudness(command: F) -> F:
    """Add -q and -v."""
    for flags, value, words in (
        (("-v", "--verbose"), 1, "Write what is being done, also where no bar is seen."),
        (("-q", "--quiet"), -1, "Show results and errors only: no progress, no remarks."),
    ):
        command = click.option(*flags, is_flag=True, expose_value=False, callback=_set_loudness(value), help=words)(
            command
        )
    return command


def json_flag(command: F) -> F:
    """Add --json, -q and -v, which say what is shown."""
    return _json(loudness(command))


def of(
    function: Callable[..., Any], *names: str, words: Mapping[str, str] | None = None, **least: int
) -> Callable[[F], F]:
    """Add an option for each named argument of a function, with the function's own default and sentence.

    `words` are other sentences where those of the function speak of Python. `least` are smallest values of whole
    numbers; without one it is 1, or 0 for a seed.
    """

    def decorate(command: F) -> F:
        for name in reversed(names):
            told = (words or {}).get(name) or document_arguments(function)[name]
            command = _option(inspect.signature(function).parameters[name], told, least.get(name))(command)
        return command

    return decorate


def add_model_options(command: F) -> F:
    """Add --device, --dtype and --trust-remote-code, which open a model."""
    decorators = (
        device,
        dtype,
        click.option("--trust-remote-code", is_flag=True, help="Let a hub model run code of its own."),
    )
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def out(default: str, text: str = "Where to write the results.") -> Callable[[F], F]:
    """Return the --out option with its default."""
    return click.option("--out", type=click.Path(path_type=Path), default=default, show_default=True, help=text)


def check_folder(folder: Path) -> None:
    """Find out now, not after an hour, that nothing can be written there; nothing is made."""
    whole = folder.absolute()
    there = next(path for path in (whole, *whole.parents) if os.path.exists(path))
    kind = "may not be written to" if there.is_dir() else "is a file"
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    require(writable, f"{folder} must be a folder to write to", f"{there}, which {kind}", "Choose another folder")


def check_file(path: Path, force: bool) -> None:
    """Find out now that a result could not be written, or would take the place of another."""
    check_folder(path.parent)
    require(not path.is_dir(), f"{path} must be a file to write", "a folder", f"For example {path / 'report.html'}")
    names = (path.with_stem(f"{path.stem}-{i}") for i in itertools.count(2))
    remedy = f"Choose another name, such as {next(name for name in names if not name.exists())}, or add --force"
    require(force or not path.exists(), f"{path} must not be there yet", "a file of that name", remedy)


def examples(*lines: str) -> str:
    """Return an epilog of worked examples that click leaves as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


class _Kind(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """A kind of value of ours."""


class ExistingFile(_Kind):
    """A file to read; a mistyped name is told at once, with the nearest one."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path of a file."""
        path = Path(value).expanduser()
        if path.is_dir():
            self.fail(f"must be a file, got the folder {path}.", param, ctx)
        if not path.exists():
            self.fail(f"must exist, got {path}. {nearest_path(path)}", param, ctx)
        return path


class Integers(_Kind):
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


def read_rates(text: str) -> tuple[float, ...]:
    """Learning rates between commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(f"--rates must be numbers between commas, got {text!r}. For example 0.001,0.004.") from None


class Words(_Kind):
    """Words between commas; `none` is no word at all."""

    name = "words"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split."""
        if isinstance(value, tuple):
            return value
        return tuple(word.strip() for word in str(value).split(",") if word.strip() and word.strip() != "none")


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


def _option(parameter: inspect.Parameter, words: str, least: int | None) -> Callable[[F], F]:
    name, default = parameter.name, parameter.default
    offer: Any = {"shell_complete": completion.BY_NAME[name]} if name in completion.BY_NAME else {}
    flag = "--" + name.replace("_", "-")
    words, _, otherwise = words.partition(" None: ")
    if isinstance(default, bool):
        switch = f"{flag}/--no-{flag[2:]}" if default else flag
        return click.option(switch, is_flag=True, default=default, show_default=default, help=words)
    if default is None or default == ():
        told = f"{words}  [default: {otherwise.rstrip('.')}]" if otherwise else words
        if str(parameter.annotation).startswith("bool"):
            return click.option(f"{flag}/--no-{flag[2:]}", default=None, help=told)
        return click.option(flag, type=_find_type(parameter, least), default=default, help=told, **offer)
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    return click.option(flag, type=_find_type(parameter, least), default=shown, show_default=True, help=words, **offer)


def _find_type(parameter: inspect.Parameter, least: int | None) -> Any:
    kind, default = str(parameter.annotation), parameter.default
    if "int" in kind and ("Sequence" in kind or "tuple" in kind):
        return Integers(1 if least is None else least)
    if "Sequence[str]" in kind:
        return Words()
    if isinstance(default, int) or kind.startswith("int"):
        return click.IntRange(min=(0 if parameter.name == "seed" else 1) if least is None else least)
    if isinstance(default, float) or kind.startswith("float"):
        return click.FLOAT
    if parameter.name in ("text", "prose"):
        return ExistingFile()
    return click.Path(path_type=Path) if "Path" in kind and parameter.name != "task" else click.STRING


@cache
def document_arguments(function: Callable[..., Any]) -> Mapping[str, str]:
    """Return what a function's docstring says of each argument, each in one line."""
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.cleandoc(function.__doc__ or ""), re.M | re.S)
    found = re.findall(r"^ {4}(\w+): (.*?)(?=^ {4}\w|\Z)", section[1] if section else "", re.M | re.S)
    return {name: " ".join(text.split()) for name, text in found}
