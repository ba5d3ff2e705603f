"""`strop export MODEL --edge EDGE --to KIND --out PATH`: an edge in another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from strop.cli import options, output
from strop.exporting.verb import PLANNERS, export, planned


@click.command(
    epilog=options.examples(
        "strop export smollm2 --edge edge.safetensors --to gguf --out sharp.gguf  # quantised as it was",
        "strop export owner/name --edge edge.safetensors --to gguf --gguf name-Q4_K_M.gguf --out sharp.gguf",
        "strop export smollm2 --edge edge.safetensors --to transformers --out sharp   # plain weights",
        "strop export smollm2 --edge edge.safetensors --to peft --out adapter         # (IA)³, beside the weights",
        "strop export smollm2 --edge edge.safetensors --to lora --max-rank 512 --out adapter",
        "strop export smollm2 --edge log-n.safetensors --at-length 8192 --to gguf --out sharp.gguf",
    )
)
@click.argument("model")
@click.option("--edge", type=click.Path(path_type=Path), required=True, help="The file strop calibrate wrote.")
@click.option("--to", type=click.Choice(list(PLANNERS)), required=True, help=options.document_arguments(export)["to"])
@click.option("--out", type=click.Path(path_type=Path), required=True, help=options.document_arguments(export)["out"])
@options.of(export, "gguf", "at_length", "max_rank", "dtype", "device")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@options.json_flag
def command(model: str, edge: Path, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Write an edge, or MODEL with it, for another engine.

    What will hold exactly, what to rounding, and what cannot be expressed is said before anything is written. Nothing
    is ever overwritten.
    """
    with planned(model, edge, **given, progress=output.bars(as_json)) as plan:
        if not as_json:
            output.say(str(plan))
        if not dry_run:
            plan.write()
        if not as_json:
            output.remark("Nothing was written (--dry-run)." if dry_run else f"Written: {plan.out}")
    if as_json:
        told = {"exact": plan.exact, "rounded": plan.rounded, "lost": plan.lost}
        output.show_json({"to": plan.to, "out": str(plan.out), "written": not dry_run, **told})
