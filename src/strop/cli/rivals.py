"""`strop rivals MODEL`: what else could be done to a frozen model, on the same data and prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from strop import _extras
from strop.cli import options, output
from strop.cli.kept import keep
from strop.errors import ArgumentError
from strop.studies import RUNS
from strop.studies.rivals.board import RivalBoard


@click.command(
    epilog=options.examples(
        "strop rivals smollm2                                   # the whole board: hours; it can be interrupted",
        "strop rivals smollm2 --rivals yarn,log-n,adaptive --tokens none",
        "strop rivals smollm2 --rivals lora-8-q,edge.safetensors --sizes 96",
        "strop rivals smollm2 --show                            # the board from what is finished",
        "strop rivals smollm2 --show --csv board.csv            # its records",
        "strop rivals --records board.csv                       # the board from kept records: no model is opened",
        "strop rivals --records board.csv --records more.csv    # one board from several files",
    )
)
@click.argument("model", required=False)
@click.option("--rivals", type=options.Words(), help="Names, or files of edges, between commas.  [default: all]")
@click.option("--sizes", type=options.Integers(), help="Pairs of look-up.  [default: 16,48,96]")
@click.option("--prompts", type=click.IntRange(min=1), help=f"Prompts of a wording.  [default: {RivalBoard.prompts}]")
@click.option("--tokens", help="Lengths of RULER; none leaves it out.  [default: 1024]")
@click.option("--documents", type=click.IntRange(min=1), help=f"Of a RULER task.  [default: {RivalBoard.documents}]")
@click.option("--steps", type=click.IntRange(min=1), help=f"Of all that learn.  [default: {RivalBoard.steps}]")
@click.option("--rates", help="Learning rates of adapters.  [default: 0.001,0.003,0.01]")
@click.option("--seed", type=click.IntRange(min=0), help="Of all randomness.  [default: 0]")
@click.option("--show", is_flag=True, help="Run nothing: print the board from what is finished.")
@click.option(
    "--records",
    type=options.ExistingFile(),
    multiple=True,
    help="Print a board from kept records instead; of several files, the last row of a rival counts.",
)
@click.option("--csv", "kept", type=click.Path(path_type=Path), help="Write the records there too.")
@options.out(RUNS, "Folder for runs; the page becomes <out>/rivals/report.html.")
@options.add_model_options
@options.threads
@options.json_flag
def command(
    model: str | None, records: tuple[Path, ...], rivals: tuple[str, ...] | None, show: bool, kept: Path | None,
    out: Path, as_json: bool, threads: int | None, device: str, dtype: str, trust_remote_code: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Put rivals on MODEL one after another and measure them on the same prompts, prose and documents.

    Training-free temperatures, DySCO, PEFT's LoRA and (IA)³ on the same data, two-shot prompts, edges. All is kept.
    """
    from strop.records import read_csv
    from strop.studies.rivals.table import tabulate_rivals

    if records:
        output.show(tabulate_rivals(row for path in records for row in read_csv(path)))
        return
    if model is None:
        raise ArgumentError("MODEL must be given, got none. For example: strop rivals smollm2.")
    board = _board(**chosen)
    _extras.need(*needed_extras(board, rivals, show))
    options.check_folder(out)
    options.use_threads(threads)
    keep("finished runs", out / "rivals", "*/done.json")
    from strop.pretrained import Pretrained
    from strop.records import write_csv
    from strop.studies.rivals import run_board
    from strop.studies.rivals.rival import RIVALS

    opened = Pretrained(model, dtype, trust_remote_code, device=device).open(output.bars(as_json))
    result = run_board(opened, board, rivals or tuple(RIVALS), out, show, output.bars(as_json))
    if kept is not None:
        write_csv(kept, result.records())
    page = out / "rivals" / "report.html"
    result.page().write(page)
    if as_json:
        output.records_json(result.records(), report=str(page))
        return
    output.show(result.table())
    output.say(f"Page: {page}")


def needed_extras(board: RivalBoard, rivals: tuple[str, ...] | None, show: bool) -> list[str]:
    """Return what a board needs: PEFT for adapters, lm-evaluation-harness for RULER."""
    adapters = rivals is None or any(name.startswith(("lora", "ia3")) for name in rivals)
    return ["hf", "report", *(["peft"] if adapters else []), *(["judge"] if board.tokens and not show else [])]


def _board(tokens: str | None, rates: str | None, **chosen: Any) -> RivalBoard:
    given = {name: value for name, value in chosen.items() if value is not None}
    try:
        if tokens is not None:
            given["tokens"] = () if tokens == "none" else tuple(int(part) for part in tokens.split(","))
        if rates is not None:
            given["rates"] = tuple(float(part) for part in rates.split(","))
    except ValueError:
        raise ArgumentError(f"--tokens and --rates must be numbers between commas, got {tokens or rates!r}.") from None
    return RivalBoard(**given)
