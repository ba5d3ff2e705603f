"""`strop diagnose MODEL`: what fails as inputs grow, and can a temperature mend it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from strop import _extras
from strop.cli import options, output
from strop.cli.kept import keep
from strop.diagnosing import diagnose


@click.command(
    epilog=options.examples(
        "strop diagnose smollm2                           # built-in tasks at growing sizes",
        "strop diagnose smollm2 --task recall,passkey --longest 1024 --out diagnosis.html",
        "strop diagnose ./my-model --data mine.jsonl      # {prompt, answer, evidence} a line",
        "strop diagnose smollm2 --json | jq -r .verdict",
    )
)
@options.model
@options.of(
    diagnose,
    "task",
    words={"task": "Built-in tasks between commas. None: recall, maximum, passkey, variables and counting."},
)
@click.option("--data", type=options.ExistingFile(), help="JSONL of your own instead: {prompt, answer, evidence}.")
@options.of(
    diagnose, "prompts", "questions", "longest", "more", "phrasings", "seed", "trial", "partial", "runs", more=0
)
@options.add_model_options
@click.option("--out", type=click.Path(path_type=Path), help="The report.  [default: in the run's folder]")
@options.force
@options.threads
@options.json_flag
def command(
    model: str, device: str, dtype: str, trust_remote_code: bool, out: Path | None, force: bool, threads: int | None,
    as_json: bool, data: Path | None, **given: Any,
) -> None:  # fmt: skip
    """Find out what fails in MODEL as its inputs grow, and whether a temperature can mend it.

    Sizes are doubled until fewer than 95 % of the answers are exact; each wrong answer then gets a cause, by what the
    heads that carry answers do with the evidence.
    """
    _extras.need("hf", "report")
    if data is not None:
        options.refuse(("task", "prompts", "questions", "more", "phrasings", "seed"), "--data")
        given["task"] = data
    if out is not None:
        options.check_file(out, force)
    options.check_folder(given["runs"])
    options.use_threads(threads)
    from strop import records
    from strop.pretrained import Pretrained

    keep("the finished sizes", given["runs"] / "diagnose", "*/*.safetensors")
    opened = Pretrained(model, dtype, trust_remote_code, device=device)
    found = diagnose(opened, **given, progress=output.bars(as_json))
    assert found.folder is not None
    records.write(found.folder / "heads.jsonl", found.heads)
    report = found.report(out or found.folder / "report.html")
    if as_json:
        named = ("verdict", "cause", "causes", "checks", "trials", "symptoms", "heads")
        said = {name: getattr(found, name) for name in named}
        output.show_json({**said, "next": found.advice[1], "report": str(report)})
        return
    output.say(f"{found.verdict}\n")
    output.show(found.table())
    output.show(found.heads_table())
    words, command = found.advice
    output.say(f"\n{words}")
    click.echo(f"\n    {command}\n")  # not wrapped, to be copied
    output.say(f"Report: {report}")
