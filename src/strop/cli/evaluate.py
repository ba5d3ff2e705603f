"""`strop evaluate MODEL --edge EDGE`: the same model before and after, on prompts that calibration never saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from strop import _extras
from strop.calibration.settings import GUARD
from strop.cli import options, output
from strop.cli.kept import keep
from strop.evaluation import evaluate
from strop.evaluation.verb import OF_BUILT_IN

OF_PROMPTS = ("task", "data", "sizes", "phrasings", "questions", "windows", "prose")
"""Settings that mean nothing for a suite, which has documents of its own."""


@click.command(
    epilog=options.examples(
        "strop evaluate smollm2 --edge edge.safetensors                             # to 20 times the calibrated size",
        "strop evaluate smollm2 --edge edge.safetensors --task lookup-similar       # keys that share halves",
        "strop evaluate smollm2 --edge edge.safetensors --task passkey --sizes 8,32,128 --prompts 100",
        "strop evaluate smollm2 --edge edge.safetensors --against seal.safetensors  # which of two is better?",
        "strop evaluate smollm2 --edge edge.safetensors --suite ruler --lengths 1024,2048   # others' tasks and scores",
        "strop evaluate ./my-model --edge edge.safetensors --data prompts.jsonl --json | jq .answers",
    )
)
@options.model
@click.option("--edge", type=click.Path(path_type=Path), required=True, help="The file strop calibrate wrote.")
@options.of(
    evaluate,
    "against",
    "suite",
    "task",
    words={
        "task": "recall, lookup, lookup-similar, lookup-nouns, maximum, passkey, variables, chains or counting. None: "
        "the one that the edge was calibrated on.",
        "suite": "Instead of a task, a benchmark by lm-evaluation-harness: ruler, or lm-eval:TASK.",
    },
)
@click.option("--data", type=options.ExistingFile(), help="JSONL of your own instead: {prompt, answer} a line.")
@options.of(
    evaluate,
    "sizes",
    "phrasings",
    "prompts",
    "questions",
    "lengths",
    "windows",
    "prose",
    "beyond",
    "seed",
    "runs",
    lengths=8,
)
@click.option("--out", type=click.Path(path_type=Path), help="The report.  [default: in the run's folder]")
@options.force
@options.add_model_options
@options.threads
@options.json_flag
def command(
    model: str, edge: Path, device: str, dtype: str, trust_remote_code: bool, out: Path | None, force: bool,
    threads: int | None,
    as_json: bool, data: Path | None, **given: Any,
) -> None:  # fmt: skip
    """Answer the same prompts and read the same prose with MODEL as it is and with the edge on it.

    Accuracy is exact answers with 95 % intervals; p-values are McNemar's over prompts and a sign-flip test over
    passages, which several prompts share. Measurements are kept: the untouched model is measured once.
    """
    _extras.need("hf", "report", *(["judge"] if given["suite"] else []))
    if given["suite"]:
        options.refuse(OF_PROMPTS, "--suite")
    if data is not None:
        options.refuse(OF_BUILT_IN, "--data")
        given["task"] = data
    if out is not None:
        options.check_file(out, force)
    options.check_folder(given["runs"])
    options.use_threads(threads)
    from strop.evaluation.suite import Suite, find_hopeless
    from strop.pretrained import Pretrained

    opened = Pretrained(model, dtype, trust_remote_code, device=device)
    if given["task"] in GUARD and given["sizes"] and not given["suite"]:
        chosen = {name: given[name] for name in ("task", "sizes", "prompts", "questions", "seed")}
        chosen["prompts"] = chosen["prompts"] or Suite.prompts
        output.remark(find_hopeless(Suite(**chosen, phrasings=tuple(given["phrasings"] or ())).passages()))
    keep("finished measurements", given["runs"] / "evaluate", "*/done.json")
    output.join_in()
    gain = evaluate(opened, None, edge, **given, progress=output.bars(as_json))
    output.show_comparison(gain, out, as_json)
