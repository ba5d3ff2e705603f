"""`strop calibrate MODEL`: a small edit of every head from a little data, weights frozen, as a small file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from strop import _extras
from strop._checks import require
from strop.calibration import calibrate
from strop.calibration.settings import Recipe
from strop.cli import options, output
from strop.cli.kept import keep
from strop.edges.forms import AUTO
from strop.errors import NothingToMendError
from strop.ranks import ranks_here

OF_DESCENT = (
    "steps", "every", "rate", "budget", "guard", "harm", "guard_leads", "recompute", "half", "sparsity", "rank",
)  # fmt: skip


@click.command(
    epilog=options.examples(
        "strop calibrate smollm2                                      # a low-rank edit of the query, on look-up",
        "strop calibrate smollm2 --form constant --task recall        # a β and an output scale per head",
        "strop calibrate smollm2 --form log-n --task passkey --sizes 8,40 --out passkey.safetensors",
        "strop calibrate smollm2 --form constant --no-outputs         # temperatures alone",
        "strop calibrate smollm2 --form none                          # SEAL's output scales alone",
        "strop calibrate smollm2 --form hold                          # from statistics alone, no gradients",
        "strop calibrate smollm2 --form auto                          # climb while validation gains",
        "strop calibrate smollm2 --form auto --target 0.3             # the smallest form that reaches 0.3 nats",
        "strop calibrate smollm2 --task text                          # from text alone, no answers",
        "strop calibrate ./my-model --data prompts.jsonl --budget 0.005",
        "torchrun --nproc-per-node 2 -m strop calibrate smollm2       # shared by two processes",
        "strop evaluate smollm2 --edge edge.safetensors --prompts 200 # then: the whole truth, on held-out prompts",
    )
)
@options.model
@options.of(
    calibrate,
    "task",
    words={
        "task": "recall, lookup, lookup-similar, lookup-nouns, maximum, passkey, variables, chains, counting, or text."
    },
)
@click.option("--data", type=options.ExistingFile(), help="Your own prompts instead: JSONL, {prompt, answer} a line.")
@options.of(
    calibrate, "form", "rank", "target", "outputs", "sizes", "phrasings", "judged", "echoes", "passages", "trusted",
    "steps", "every", "rate", "budget", "guard", "harm", "guard_leads", "recompute", "half", "sparsity", "windows",
    "lengths", "prose", "beyond", "partial", "seed", "runs", echoes=0, trusted=16, lengths=8,
)  # fmt: skip
@click.option(
    "--test-prompts", type=click.IntRange(min=0), default=48, show_default=True, help="Prompts a size; 0: no test."
)
@options.out("edge.safetensors", "Where to write the edge.")
@options.force
@options.add_model_options
@options.threads
@options.json_flag
def command(
    model: str, device: str, dtype: str, trust_remote_code: bool, threads: int | None, as_json: bool, out: Path,
    force: bool,
    test_prompts: int, data: Path | None, **given: Any,
) -> None:  # fmt: skip
    """Learn what each head of MODEL should do differently, and write it to a file.

    The weights stay frozen. Calibration keeps the numbers that are best on validation prompts among all that stay
    within the budget of drift on ordinary prose and do no harm to other tasks; if nothing does, the edge does nothing.
    Figures are from a test split, held-out phrasings and larger sizes.
    """
    _extras.need("hf", "report")
    task = _task(given.pop("task"), data)
    if given["form"] == "hold":
        options.refuse(OF_DESCENT, "--form hold, which only measures")
    if given["form"] == AUTO:
        options.refuse(("rank",), "--form auto, which finds it")
    options.check_file(out, force)
    options.check_folder(given["runs"])
    options.use_threads(threads)
    from strop.pretrained import Pretrained

    opened, bars = Pretrained(model, dtype, trust_remote_code, device=device), output.bars(as_json)
    _check_test(task, (given["sizes"] or Recipe.sizes)[-1], test_prompts)
    keep("the steps so far", given["runs"] / "calibrate", "*/state.safetensors")
    leads = output.join_in()
    try:
        edge = calibrate(opened, None, task, **given, progress=bars)
    except NothingToMendError as found:
        output.show_json({"edge": None, "summary": str(found)}) if as_json else output.say(str(found))
        return
    if leads:
        edge.save(out)
    if test_prompts:
        _test(opened, edge, task, test_prompts, out, given["runs"], as_json)
    elif as_json:
        output.show_json({"edge": str(out), "summary": edge.summary, "ladder": edge.made.get("ladder")})
    else:
        output.say(f"{_tell(edge)}\n\nEdge: {out}")


def _check_test(task: str | Path, size: int, prompts: int) -> None:
    """Say before anything is begun that the test at the end will be too small to show anything."""
    from strop.evaluation.suite import Suite, find_hopeless

    if isinstance(task, str) and prompts:
        suite = Suite("recall" if task == "text" else str(task), (size,), prompts=prompts)
        output.remark(find_hopeless(suite.passages()).replace("--prompts", "--test-prompts"))


def _test(opened: Any, edge: Any, task: str | Path, prompts: int, out: Path, runs: Path, as_json: bool) -> None:
    """Measure a fresh edge, and write what it gained and cost into its file."""
    from strop.evaluation import evaluate
    from strop.evaluation.suite import plan_test

    if not as_json:
        output.say(_tell(edge))
    then = f"Measure it with: strop evaluate {opened.name} --edge {out}"
    keep("finished measurements", runs / "evaluate", "*/done.json", then)
    keep("the edge, whole but not yet measured,", out, then=then)
    settings = {"task": task} | plan_test(edge, prompts)
    gain = evaluate(opened, None, edge, **settings, runs=runs, progress=output.bars(as_json))
    edge = replace(edge, figures=(*gain.answers, *gain.prose))
    if ranks_here().leads:
        edge.save(out)
    output.show_comparison(gain, None, as_json, edge=str(out), ladder=edge.made.get("ladder"))
    if not as_json:
        output.say(f"Edge: {out}")


def _tell(edge: Any) -> str:
    """What calibration did, after a line for every rung that it climbed."""
    from strop.edges.card import describe_ladder

    return "\n".join([*describe_ladder(edge), edge.summary])


def _task(task: str, data: Path | None) -> str | Path:
    require(task != "jsonl" or data is not None, "--task jsonl must come with --data FILE", "no file")
    if data is None:
        return task
    if task != "jsonl":
        options.refuse(("task",), "--data")
    return data
