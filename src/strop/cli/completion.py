"""What a shell offers for an unfinished word: models, tasks, forms, normalisers.

eval "$(_STROP_COMPLETE=bash_source strop)"      # or zsh_source, fish_source
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from strop.calibration.settings import GUARD
from strop.edges.forms import AUTO, FORMS

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_models(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem]:
    """Return models that are packages, and folders, which the shell completes itself."""
    from strop.pretrained.sources import PACKAGES

    named = [CompletionItem(name) for name in PACKAGES if name.startswith(word)]
    folders = any(path.is_dir() for path in Path().glob(f"{word}*")) if word[:1] not in ("/", "~") else True
    return named + ([CompletionItem(word, type="dir")] if folders else [])


def offer(names: Callable[[], Iterable[str]]) -> Offer:
    """Return a completion of names, also of the last one between commas."""

    def complete(_: click.Context, __: click.Parameter, word: str) -> list[CompletionItem]:
        before, comma, last = word.rpartition(",")
        return [CompletionItem(f"{before}{comma}{name}") for name in names() if name.startswith(last)]

    return complete


def _text_tasks() -> Iterable[str]:
    from strop.tasks.catalogue import TASKS

    return (*TASKS, "text")


def _arena_tasks() -> Iterable[str]:
    from strop.studies.problems import ALL_TASKS

    return ALL_TASKS


def _normalisers() -> Iterable[str]:
    from strop.normalisers import NAMES

    return NAMES


BY_NAME: dict[str, Offer] = {
    "task": offer(_text_tasks),
    "guard": offer(lambda: GUARD),
    "form": offer(lambda: (*FORMS, AUTO)),
    "tasks": offer(_arena_tasks),
    "normalisers": offer(_normalisers),
}
"""Option → what completes it."""
