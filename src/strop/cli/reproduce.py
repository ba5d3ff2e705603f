"""`strop reproduce`: the paper's max-retrieval study, from training to the page; `clrs-text` is its other study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strop import _extras
from strop.cli import clrs_text, options, output
from strop.cli.kept import keep
from strop.studies import RUNS
from strop.studies.retrieval.study import Study

if TYPE_CHECKING:
    from strop.studies.retrieval import Reproduction

_EXAMPLES = options.examples(
    "strop reproduce --quick                      # the trained models of a clone, fewer sets: a few minutes",
    "strop reproduce                              # train every seed of each setting: hours",
    "strop reproduce --seeds 2 --sizes 16,256,4096   # a smaller study",
    "strop reproduce --settings coupled,size-16 --seeds 2   # other readings of the paper's training",
    "strop reproduce --quick --json               # the table for machines",
    "strop reproduce clrs-text --quick            # the paper's other study: classical algorithms as text",
)
_SIZES = f"{Study.sizes[0]},{Study.sizes[1]},…,{Study.sizes[-1]}"


@click.group(epilog=_EXAMPLES, invoke_without_command=True, subcommand_metavar="[clrs-text …]")
@click.option("--quick", is_flag=True, help="The trained models of a clone and fewer sets; nothing is trained.")
@click.option("--settings", help=f"Ways to train, between commas.  [default: {','.join(Study.settings)}]")
@click.option("--seeds", type=click.IntRange(min=1), help=f"Models per setting.  [default: {Study.seeds}]")
@click.option("--sets", type=click.IntRange(min=1), help=f"Sets per size and model.  [default: {Study.sets}]")
@click.option("--sizes", type=options.Integers(), help=f"Set sizes.  [default: {_SIZES}]")
@click.option("--steps", type=click.IntRange(min=1), help="Training steps.  [default: each setting's own]")
@click.option(
    "--train-sizes", type=options.Integers(), help="Least and largest trained size.  [default: each setting's own]"
)
@click.option("--classes", type=click.IntRange(min=1), help="Classes of the task.  [default: as in the paper]")
@click.option("--workers", type=click.IntRange(min=1), help="Processes.  [default: one a core]")
@options.out(RUNS, "Folder for runs; the page becomes <out>/reproduce/report.html.")
@options.json_flag
def command(quick: bool, settings: str | None, workers: int | None, out: Path, as_json: bool, **chosen: Any) -> None:
    """Train the paper's retrievers, evaluate them from 16 to 16,384 items, and write its table and figures.

    Interrupt it at any time: the same command continues, and a training run loses at most 5,000 steps.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    given = {name: value for name, value in chosen.items() if value is not None}
    if settings is not None:
        given["settings"] = tuple(settings.split(","))
    study = Study.quick(**given) if quick else Study(**given)
    _extras.need("report")
    options.check_folder(out)
    keep("finished runs and checkpoints", out / "reproduce", "*/*")

    from strop.engine import Local
    from strop.studies.retrieval import reproduce

    result = reproduce(study, out, Local(workers), output.phases(quiet=as_json))
    _print(result, result.report(), as_json)


command.add_command(clrs_text.command)


def _print(result: Reproduction, page: Path, as_json: bool) -> None:
    if as_json:
        claims = [{"claim": c.text, "holds": c.holds, "evidence": c.evidence} for c in result.claims]
        output.records_json(result.accuracy_rows(), claims=claims, report=str(page))
        return
    for table in result.tables():
        output.show(table)
    output.say(f"Table, figures and explanation: {page}")
