"""`strop arena`: every normaliser on every task, from small sizes to large ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strop import _extras
from strop._progress import show_progress
from strop.cli import completion, options, output
from strop.cli.engines import choose_engine, engine_options
from strop.cli.kept import keep
from strop.studies import RUNS
from strop.studies.arena.arena import BUDGETS, Arena
from strop.studies.arena.configs import Shape
from strop.studies.arena.entries import split_names

if TYPE_CHECKING:
    from strop.studies.arena import ArenaProgress, ArenaResult

_EXAMPLES = options.examples(
    "strop arena --quick                          # three tasks, four normalisers, one seed: minutes",
    "strop arena                                  # the whole board: hours; interrupt and continue at will",
    "strop arena --show                           # the board from what is finished",
    "strop arena --tasks max_retrieval,recall --normalisers 'softmax,adaptive,top_k(k=2)' --seeds 5",
    "strop arena --normalisers 'softmax,softmax>log_n'   # trained with the first, tested with the second",
    "strop arena --engine ray --address auto      # the same runs on a cluster that shares the folder --out",
)
_RATES = ",".join(map(str, Arena.rates))
_STEPS, _BATCH = (
    f"{getattr(BUDGETS['set'], name)}; sequences {getattr(BUDGETS['sequence'], name)}" for name in ("steps", "batch")
)


@click.command(epilog=_EXAMPLES)
@click.option(
    "--tasks",
    shell_complete=completion.BY_NAME["tasks"],
    help="Tasks, between commas.  [default: those of the board in docs/arena.md]",
)
@click.option(
    "--normalisers", "entries", shell_complete=completion.BY_NAME["normalisers"],
    help="Entrants, between commas: name, name(setting=1) or trained>tested.",
)  # fmt: skip
@click.option("--seeds", type=click.IntRange(min=1), help=f"Models of each entrant.  [default: {Arena.seeds}]")
@click.option("--rates", help=f"Learning rates to choose from, between commas.  [default: {_RATES}]")
@click.option("--steps", type=click.IntRange(min=1), help=f"Training steps.  [default: {_STEPS}]")
@click.option("--batch", type=click.IntRange(min=1), help=f"Problems a step.  [default: {_BATCH}]")
@click.option("--sizes", type=options.Integers(), help="Test sizes.  [default: each task's own]")
@click.option("--problems", type=click.IntRange(min=16), help=f"Problems a size, at most.  [default: {Arena.problems}]")
@click.option(
    "--items",
    type=click.IntRange(min=1),
    help=f"Problems × length a size, at most, but for 16 problems.  [default: {Arena.items}]",
)
@click.option("--positions", type=click.Choice(["rope", "nope", "alibi"]), default=Shape.positions, show_default=True)
@click.option("--norm-after", is_flag=True, help="Put a norm after attention (arXiv 2504.02827).")
@click.option("--quick", is_flag=True, help="A small board in minutes.")
@click.option("--show", is_flag=True, help="Run nothing: print the board from what is finished.")
@engine_options
@options.out(RUNS, "Folder for runs; the page becomes <out>/arena/report.html.")
@options.json_flag
def command(
    out: Path, as_json: bool, show: bool, place: str, address: str | None, workers: int | None, **chosen: Any
) -> None:
    """Train every normaliser on small problems, test it on far larger ones, and rank them.

    Finished runs are kept: interrupt at any time, the same command continues. Several may share a folder.
    """
    _extras.need("report")
    arena, engine = _arena(**chosen), choose_engine(place, address, workers)

    from strop.studies.arena import read_arena, run_arena

    if show:
        result = read_arena(arena, out)
    else:
        options.check_folder(out)
        keep("finished runs", out / "arena", "*/done.json")
        with _watch(as_json) as watch:
            result = run_arena(arena, out, engine, watch)
    _print(result, result.report(), as_json)
    if result.failures and not show:
        raise click.exceptions.Exit(1)


def _arena(quick: bool, positions: str, norm_after: bool, **chosen: Any) -> Arena:
    given = {name: value for name, value in chosen.items() if value is not None}
    for name, read in (("tasks", split_names), ("entries", split_names), ("rates", options.read_rates)):
        if name in given:
            given[name] = read(given[name])
    shape = Shape(positions=positions, norm_after=norm_after)
    return Arena.quick(**given, shape=shape) if quick else Arena(**given, shape=shape)


@contextmanager
def _watch(as_json: bool) -> Iterator[Callable[[ArenaProgress], None]]:
    """A bar that says phase, runs done and failed, and time left."""
    with show_progress("arena", None, output.bars(as_json)) as bar:

        def show(progress: ArenaProgress) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            running = f", {progress.running} running" if progress.running else ""
            ended = progress.done + progress.failed
            bar.update(completed=ended, total=progress.total, text=f"{progress.phase}{running}{failed}")

        yield show


def _print(result: ArenaResult, page: Path, as_json: bool) -> None:
    if as_json:
        rows, failed = result.leaderboard.records(), dict(result.failures)
        output.records_json(rows, failed=failed, report=str(page), standing=result.standing)
        return
    for table in result.tables():
        output.show(table)
    for name, reason in result.failures.items():
        output.say(f"failed: {name}: {reason}")
    output.say(f"{result.standing} Page: {page}")
