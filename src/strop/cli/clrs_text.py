"""`strop reproduce clrs-text`: the paper's second study, classical algorithms as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strop import _extras
from strop._progress import show_progress
from strop.cli import options, output
from strop.cli.engines import choose_engine, engine_options
from strop.cli.kept import keep
from strop.studies import RUNS
from strop.studies.clrs.configs import CLRS_FOLDER, DecoderShape
from strop.studies.clrs.study import ARMS, ClrsStudy

if TYPE_CHECKING:
    from strop.engine import Engine
    from strop.studies.clrs import ClrsResult

_EXAMPLES = options.examples(
    "strop reproduce clrs-text --quick                    # the results that come with strop: seconds",
    "strop reproduce clrs-text                            # train every arm and seed: half an hour of one core",
    "strop reproduce clrs-text --model smollm2            # SmolLM2 with LoRA on two algorithms",
    "strop reproduce clrs-text --positions drawn --quick  # decoders that see the distances of long inputs in training",
    "strop reproduce clrs-text --algorithms minimum,bubble_sort --arms softmax,adaptive --seeds 1",
    "strop reproduce clrs-text --engine ray --address auto   # the same runs on a cluster that shares --out",
)


@click.command("clrs-text", epilog=_EXAMPLES)
@click.option(
    "--model", type=click.Choice(["decoder", "smollm2"]), default="decoder", show_default=True,
    help="A small decoder from scratch, or SmolLM2 with low-rank changes.",
)  # fmt: skip
@click.option(
    "--positions", type=click.Choice(["consecutive", "drawn"]), default="consecutive", show_default=True,
    help="Of a decoder's tokens: 0, 1, 2 …, or drawn from many more places and sorted, for each sequence.",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="The results that come with strop; nothing is trained.")
@click.option(
    "--algorithms", help=f"Between commas.  [default: {len(ClrsStudy.algorithms)}; smollm2 two, drawn positions nine]"
)
@click.option("--arms", help=f"Between commas.  [default: {','.join(ARMS)}]")
@click.option("--rates", help="Learning rates to choose from, between commas.  [default: each model's own]")
@click.option("--seeds", type=click.IntRange(min=1), help=f"Models of each arm.  [default: {ClrsStudy.seeds}]")
@click.option("--problems", type=click.IntRange(min=1), help=f"Questions a size.  [default: {ClrsStudy.problems}]")
@click.option("--width", type=click.IntRange(min=1), help=f"Of a decoder.  [default: {DecoderShape.width}]")
@click.option("--steps", type=click.IntRange(min=1), help="Training steps.  [default: each model's own]")
@engine_options
@options.out(RUNS, "Folder for runs; the page becomes <out>/clrs-text/MODEL.html, or drawn.html.")
@options.json_flag
def command(
    model: str, positions: str, quick: bool, place: str, address: str | None, workers: int | None, out: Path,
    as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Train small models to do classical algorithms written as text, test them at larger sizes, and write the page.

    Arms: softmax; adaptive temperature in training and inference; at inference alone; SSMax; an edge calibrated
    afterwards. Interrupt it at any time: finished runs are kept, and the same command continues.
    """
    engine = choose_engine(place, address, workers)
    given = {name: value for name, value in chosen.items() if value is not None}
    if quick and given:
        raise click.UsageError(f"--quick must come alone: --{next(iter(given))} would need training. Leave one out.")
    if model != "decoder" and (positions == "drawn" or "width" in given):
        raise click.UsageError("--positions drawn and --width must come with --model decoder. Leave one out.")
    _extras.need("report")
    options.check_folder(out)
    from strop.studies.clrs.bundled import read_bundled

    name = "drawn" if positions == "drawn" else model
    result = read_bundled(name, out) if quick else _run(_study(name, **given), out, engine, as_json)
    _print(result, result.report(out / CLRS_FOLDER / f"{name}.html"), as_json)
    if result.failures:
        raise click.exceptions.Exit(1)


def _study(name: str, **given: Any) -> ClrsStudy:
    from dataclasses import replace

    from strop.studies.clrs.bundled import BUNDLED

    deeper = {"budget": ("steps",), "shape": ("width",)}
    inner = {part: {key: given.pop(key) for key in keys if key in given} for part, keys in deeper.items()}
    for key in given.keys() & {"algorithms", "arms"}:
        given[key] = tuple(given[key].split(","))
    if "rates" in given:
        given["rates"] = options.read_rates(given["rates"])
    study = BUNDLED[name](**given)
    return replace(study, **{part: replace(getattr(study, part), **changes) for part, changes in inner.items()})


def _run(study: ClrsStudy, out: Path, engine: Engine, as_json: bool) -> ClrsResult:
    from strop.studies.clrs import run_clrs

    keep("finished runs", out / CLRS_FOLDER, "*/done.json")
    with show_progress("clrs-text", None, output.bars(as_json)) as bar:
        return run_clrs(
            study, out, engine, lambda phase, done, total: bar.update(completed=done, total=total, text=phase)
        )


def _print(result: ClrsResult, page: Path, as_json: bool) -> None:
    from strop.studies.clrs.report.verdict import state_verdicts

    verdicts = state_verdicts(result)
    if as_json:
        whole = [row for row in result.records if row["place"] is None]
        output.records_json(whole, verdicts=verdicts, failed=dict(result.failures), report=str(page))
        return
    for table in result.tables():
        output.show(table)
    for line in (*verdicts, *(f"failed: {name}: {reason}" for name, reason in result.failures.items())):
        output.say(line)
    output.say(f"{result.standing} Page: {page}")
