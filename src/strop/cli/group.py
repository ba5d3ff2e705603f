"""The group of verbs. Verbs are imported only when they are called; the lines below are what --help shows.

Exit codes: 0 done; 2 what was typed is wrong; 1 something went wrong while it was done; 130 interrupted.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
import warnings
from importlib.util import find_spec
from typing import Any

import click

from strop._progress import LOUDNESS
from strop.cli.kept import describe_kept
from strop.cli.output import columns
from strop.errors import EdgeError, EdgeFileError, SourceError, StropError, StropWarning
from strop.ranks import count_started
from strop.report.layout import wrap

VERBS = {
    "reproduce": "The paper's max-retrieval study: train, evaluate to 16,384 items, table, figures.",
    "probe": "Every head's entropy, top weight, spread and horizon as the context grows.",
    "diagnose": "What fails as inputs grow, and can a temperature mend it?",
    "calibrate": "Per-head temperatures from a little data, weights frozen.",
    "evaluate": "The same model before and after, on held-out sizes.",
    "export": "The edge in another engine: GGUF, plain weights, PEFT, LoRA, vLLM.",
    "arena": "Attention normalisers side by side on size-generalisation tasks.",
    "rivals": "Edges beside LoRA, (IA)³ and training-free temperatures, on one board.",
    "demo": "All of it in a few minutes, on one page.",
    "doctor": "What is installed here, what is missing, and how to add it.",
}

SHARED = ("calibrate", "evaluate")
"""Verbs that several processes can share."""

MISTYPED = (ValueError, SourceError, EdgeError, EdgeFileError, ModuleNotFoundError)
"""Errors that say that what was typed is wrong, ArgumentError among them; the others say what happened."""


class Group(click.Group):
    """Loads verbs by name, and gives every failure plain words and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs that this installation has."""
        return [verb for verb in VERBS if find_spec(f"strop.cli.{verb}") is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module and return its `command`."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"strop.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest verb for an unknown one; refuse one that several processes cannot share."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            ctx.fail(f"No verb {args[0]!r}. {_suggestion(args[0], self.list_commands(ctx))}")
        if count_started() > 1 and args and args[0] not in SHARED:  # they would all write the same files
            ctx.fail(f"torchrun can share {' and '.join(SHARED)}, not {args[0]}. Start it without torchrun.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, VERBS[verb]) for verb in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; turn what goes wrong into words on stderr and an exit code."""
        warnings.showwarning = _show_warning
        LOUDNESS.set(0)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _tell(f"\nstrop: interrupted. {describe_kept(ctx)}")
            ctx.exit(130)
        except BrokenPipeError:
            raise  # the reader of our output left, `| head` for one: click ends quietly
        except click.UsageError as error:
            path = (error.ctx or ctx).command_path
            _tell(f"strop: {error.format_message()}\nHelp: {path} --help")
            ctx.exit(2)
        except (StropError, ValueError, OSError, ModuleNotFoundError) as error:
            if ctx.params.get("traceback"):
                traceback.print_exception(error)
            else:
                _tell(f"strop: {_words_of(error)}")
            ctx.exit(2 if isinstance(error, MISTYPED) else 1)


def _tell(text: str) -> None:
    click.echo(wrap(text, columns(sys.stderr)), err=True)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """A warning of ours is a remark to the user; one of another package is for its developers."""
    if issubclass(category, StropWarning):
        if LOUDNESS.get() >= 0:
            _tell(str(message))
    else:
        click.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True)


def _suggestion(word: str, verbs: list[str]) -> str:
    near = difflib.get_close_matches(word, verbs, n=1, cutoff=0.5)
    return f"Did you mean {near[0]}?" if near else f"Verbs: {', '.join(verbs)}."


def _words_of(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        from strop._extras import tell_missing

        return str(tell_missing(error.name or ""))
    return str(error).strip() or type(error).__name__


@click.group(
    cls=Group,
    subcommand_metavar="VERB …",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="strop", message="%(prog)s %(version)s")
@click.option("--traceback", is_flag=True, help="Show the whole traceback of an error.")
def strop(traceback: bool) -> None:
    """Find where a trained model's attention goes blunt as its inputs grow, and put the edge back.

    Every verb explains itself: strop VERB --help
    """
