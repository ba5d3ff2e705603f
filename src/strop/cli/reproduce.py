"""`strop reproduce`: the paper's max-retrieval study, from training to the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strop.cli import options, output
from strop.cli.group import kept

if TYPE_CHECKING:
    from strop.experiments.reproduce import Phase, Study

_EXAMPLES = options.examples(
    "strop reproduce --quick                      # bundled models, fewer sets: a few minutes",
    "strop reproduce                              # train ten seeds of each setting, 2,048 sets per size",
    "strop reproduce --seeds 2 --sizes 16,256,4096   # a smaller study",
    "strop reproduce --settings coupled,size-16 --seeds 2   # other readings of the paper's training",
    "strop reproduce --quick --json               # the table for machines",
)


@click.command(epilog=_EXAMPLES)
@click.option("--quick", is_flag=True, help="Bundled models and 128 sets per size; nothing is trained.")
@click.option("--settings", default=None, help="Ways to train, between commas.  [default: nearest,decay]")
@click.option("--seeds", type=click.IntRange(min=1), default=10, show_default=True, help="Models per setting.")
@click.option("--sets", type=click.IntRange(min=1), default=None, help="Sets per size and model.  [default: 2048]")
@click.option("--sizes", type=options.Integers(), default=None, help="Set sizes.  [default: 16,32,…,16384]")
@click.option("--steps", type=click.IntRange(min=1), default=None, help="Training steps, for every setting.")
@click.option("--train-sizes", type=options.Integers(), default=None, help="Least and largest set in training.")
@click.option("--classes", type=click.IntRange(min=1), default=None, help="Classes of the task.  [default: 10]")
@click.option("--workers", type=click.IntRange(min=1), default=None, help="Processes.  [default: one a core]")
@options.out("runs", "Folder for runs; the page becomes <out>/reproduce/report.html.")
@options.json_flag
def command(workers: int | None, out: Path, as_json: bool, **chosen: Any) -> None:
    """Train the paper's retrievers, evaluate them from 16 to 16,384 items, and write its table and figures.

    Interrupt it at any time: the same command continues, and a training run loses at most 5,000 steps.
    """
    study = _study(**chosen)
    options.check_folder(out)
    kept(f"finished runs and checkpoints in {out}; the same command continues")

    from strop.engine import Local
    from strop.experiments.reproduce import run
    from strop.experiments.reproduce_report import write_results

    records, models = run(study, out, Local(workers), phase(as_json))
    _, path = write_results(study, records, models, out)
    _print(records, path, as_json)


def _study(
    quick: bool,
    settings: str | None,
    seeds: int,
    sets: int | None,
    sizes: tuple[int, ...] | None,
    steps: int | None,
    train_sizes: tuple[int, ...] | None,
    classes: int | None,
) -> Study:
    from strop.experiments.reproduce import Study
    from strop.experiments.reproduce_settings import DEFAULT, SIZES

    if train_sizes is not None and len(train_sizes) != 2:
        raise ValueError(f"--train-sizes must be two sizes, got {len(train_sizes)}. For example 5,16.")
    start = Study.quick() if quick else Study()
    return replace(
        start,
        settings=DEFAULT if settings is None else tuple(settings.split(",")),
        seeds=seeds,
        sizes=sizes or SIZES,
        sets=sets or start.sets,
        steps=steps,
        train_sizes=None if train_sizes is None else (train_sizes[0], train_sizes[1]),
        classes=classes,
    )


def phase(as_json: bool) -> Phase:
    """Return what shows a phase of the study as a progress bar."""

    @contextmanager
    def shown(title: str, total: float) -> Iterator[Callable[[float], None]]:
        with output.progress(title, total, quiet=as_json) as bar:
            yield lambda done: bar.update(completed=done)
            bar.update(completed=total)

    return shown


def _print(records: list[dict[str, str | int | float | bool | None]], page: Path, as_json: bool) -> None:
    from strop.experiments.reproduce_report import accuracy_table, claims_table, settings_table
    from strop.experiments.reproduce_tables import claims, groups

    found = groups(records)
    if as_json:
        rows = [row for row in records if "rule" in row and "what" not in row and not row["grid"]]
        judged = [{"claim": c.text, "holds": c.holds, "evidence": c.evidence} for c in claims(found)]
        output.records_json(rows, claims=judged, report=str(page))
        return
    for group in found:
        output.show(accuracy_table(group, spread=False))
    output.show(settings_table(found))
    output.show(claims_table(found))
    output.say(f"Table, figures and explanation: {page}")
