"""`strop arena`: every normaliser on every task, from small sizes to large ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strop._checks import require
from strop.cli import options, output
from strop.cli.group import kept

if TYPE_CHECKING:
    from strop.engine import Engine
    from strop.experiments.arena import Arena, Progress

_EXAMPLES = options.examples(
    "strop arena --quick                          # three tasks, four normalisers, one seed: minutes",
    "strop arena                                  # the whole board: hours; interrupt and continue at will",
    "strop arena --show                           # the board from what is finished",
    "strop arena --tasks max_retrieval,recall --normalisers 'softmax,adaptive,top_k(k=2)' --seeds 5",
    "strop arena --normalisers 'softmax,softmax>log_n'   # trained with the first, tested with the second",
    "strop arena --engine ray --address auto      # the same runs on a cluster that shares the folder --out",
)


@click.command(epilog=_EXAMPLES)
@click.option("--tasks", default=None, help="Tasks, between commas.  [default: those of the board in docs/arena.md]")
@click.option("--normalisers", default=None, help="Entrants, between commas: name, name(setting=1) or trained>tested.")
@click.option("--seeds", type=click.IntRange(min=1), default=None, help="Models of each entrant.  [default: 3]")
@click.option("--rates", default=None, help="Learning rates to choose from, between commas.  [default: 0.001,0.004]")
@click.option(
    "--steps", type=click.IntRange(min=1), default=None, help="Training steps.  [default: 2000; sequences 1000]"
)
@click.option("--batch", type=click.IntRange(min=1), default=None, help="Problems a step.  [default: 64; sequences 32]")
@click.option("--sizes", type=options.Integers(), default=None, help="Test sizes.  [default: each task's own]")
@click.option("--problems", type=click.IntRange(min=16), default=None, help="Problems a size, at most.  [default: 512]")
@click.option(
    "--items",
    type=click.IntRange(min=1),
    default=None,
    help="Problems × length a size, at most, but for 16 problems.  [default: 2^20]",
)
@click.option("--positions", type=click.Choice(["rope", "nope", "alibi"]), default="rope", show_default=True)
@click.option("--norm-after", is_flag=True, help="Put a norm after attention (arXiv 2504.02827).")
@click.option("--quick", is_flag=True, help="A small board in minutes.")
@click.option("--show", is_flag=True, help="Run nothing: print the board from what is finished.")
@click.option("--engine", "place", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option("--address", default=None, help="Ray cluster to join, as auto or host:port.  [default: start one here]")
@click.option("--workers", type=click.IntRange(min=1), default=None, help="Processes, if local.  [default: one a core]")
@options.out("runs", "Folder for runs; the page becomes <out>/arena/report.html.")
@options.json_flag
def command(
    out: Path, as_json: bool, show: bool, place: str, address: str | None, workers: int | None, **chosen: Any
) -> None:
    """Train every normaliser on small problems, test it on far larger ones, and rank them.

    Finished runs are kept: interrupt at any time, the same command continues. Several may share a folder.
    """
    arena, engine = _arena(**chosen), _engine(place, address, workers)
    failed: dict[str, str] | None = None
    if not show:
        options.check_folder(out)
        kept(f"finished runs in {out}; the same command continues")

        from strop.experiments.arena import run

        with _watch(as_json) as watch:
            failed = run(arena, out, engine, watch)
    _print(arena, out, failed, as_json)
    if failed:
        raise click.exceptions.Exit(1)


def _arena(quick: bool, positions: str, norm_after: bool, **chosen: Any) -> Arena:
    from strop.experiments.arena import QUICK, Arena
    from strop.experiments.arena_entries import split
    from strop.experiments.arena_runs import Shape

    settings: dict[str, Any] = dict(QUICK) if quick else {}
    for name, key in (("tasks", "tasks"), ("normalisers", "entries")):
        if chosen[name] is not None:
            settings[key] = split(chosen[name])
    if chosen["rates"] is not None:
        settings["rates"] = _rates(chosen["rates"])
    settings |= {
        key: chosen[key] for key in ("seeds", "steps", "batch", "sizes", "problems", "items") if chosen[key] is not None
    }
    return Arena(**settings, shape=Shape(positions=positions, norm_after=norm_after))


def _rates(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--rates must be numbers between commas, got {text!r}. For example 0.001,0.004.") from None


def _engine(place: str, address: str | None, workers: int | None) -> Engine:
    if place == "ray":
        from strop.engine.cluster import Ray

        require(workers is None, "--workers must be left out with --engine ray", workers, "Ray counts its own cores")
        return Ray(address)
    from strop.engine import Local

    require(address is None, "--address must come with --engine ray", address, "Add --engine ray")
    return Local(workers)


@contextmanager
def _watch(as_json: bool) -> Iterator[Callable[[Progress], None]]:
    """A bar that says phase, runs done and failed, and time left."""
    with output.progress("arena", None, quiet=as_json) as bar:

        def show(progress: Progress) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            running = f", {progress.running} running" if progress.running else ""
            ended = progress.done + progress.failed
            bar.update(completed=ended, total=progress.total, text=f"{progress.phase}{running}{failed}")

        yield show


def _print(arena: Arena, out: Path, failed: dict[str, str] | None, as_json: bool) -> None:
    from strop.experiments.arena import collect, failures
    from strop.experiments.arena_report import leaderboard, standing, task_tables, write_results

    reasons = failures(arena, out) if failed is None else failed
    there = failed is not None or bool(reasons or collect(arena, out))
    remedy = "Repeat the flags that it was run with, such as --quick"
    require(there, f"{out} must hold finished runs of this arena", "none", remedy)  # a page of others is not replaced
    found, page = write_results(arena, out, reasons)
    if as_json:
        output.records_json(
            leaderboard(found).records(), failed=reasons, report=str(page), standing=standing(arena, found)
        )
        return
    if found.cells:
        for table in (*task_tables(found), leaderboard(found)):
            output.show(table)
    for name, reason in reasons.items():
        output.say(f"failed: {name}: {reason}")
    output.say(f"{standing(arena, found)} Page: {page}")
