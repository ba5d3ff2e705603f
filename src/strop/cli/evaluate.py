"""`strop evaluate MODEL --edge EDGE`: the same model before and after, on prompts that calibration never saw."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strop._checks import require
from strop.cli import options, output
from strop.cli.group import kept
from strop.cli.language import model_options, opened, readable, words

if TYPE_CHECKING:
    from torch import nn

    from strop.calibrate.edge import Edge
    from strop.evaluate.suite import Comparison, Suite
    from strop.tasks.answers import Reader


OF_BUILT_IN = ("task", "sizes", "phrasings", "prompts", "questions")


@click.command(
    epilog=options.examples(
        "strop evaluate smollm2 --edge edge.safetensors",
        "strop evaluate smollm2 --edge edge.safetensors --task passkey --sizes 8,32,128 --prompts 100",
        "strop evaluate smollm2 --edge edge.safetensors --against seal.safetensors  # which of two is better?",
        "strop evaluate ./my-model --edge edge.safetensors --data prompts.jsonl --json | jq .answers",
    )
)
@click.argument("model")
@click.option("--edge", "path", type=click.Path(path_type=Path), required=True, help="The file strop calibrate wrote.")
@click.option("--against", type=click.Path(path_type=Path), help="Another edge to compare with.  [default: untouched]")
@click.option("--task", default="recall", show_default=True, help="recall, maximum, passkey, variables or counting.")
@click.option("--data", type=click.Path(), help="JSONL of your own instead: {prompt, answer} a line.")
@click.option("--sizes", type=options.Integers(), default="4,16,32,64", show_default=True, help="Sizes of the task.")
@click.option("--phrasings", help="Names between commas.  [default: one that calibration uses, all held-out ones]")
@click.option("--prompts", type=click.IntRange(min=1), default=200, show_default=True, help="For each size, phrasing.")
@click.option("--questions", type=click.IntRange(min=1), default=8, show_default=True, help="Prompts a passage.")
@click.option("--lengths", type=options.Integers(8), default="256,1024", show_default=True, help="Tokens of prose.")
@click.option("--windows", type=click.IntRange(min=1), default=8, show_default=True, help="Texts for each length.")
@click.option("--prose", type=click.Path(), help="UTF-8 text to read.  [default: Python's own documentation]")
@click.option("--out", type=click.Path(path_type=Path), help="The report.  [default: in the run's folder]")
@model_options
@options.seed
@options.threads
@options.json_flag
def command(
    model: str, path: Path, dtype: str, trust_remote_code: bool, runs: Path, out: Path | None, threads: int | None,
    as_json: bool, against: Path | None, **suite: Any,
) -> None:  # fmt: skip
    """Answer the same prompts and read the same prose with MODEL as it is and with the edge on it.

    Accuracy is exact answers with 95 % intervals; p-values are McNemar's over prompts and a sign-flip test over
    passages, which several prompts share. Measurements are kept: the untouched model is measured once.
    """
    options.use_threads(threads)
    from strop.calibrate.edge import Edge
    from strop.evaluate.suite import Suite

    if suite["data"] is not None:
        options.refuse(OF_BUILT_IN, "--data")
    asked = Suite(**suite | {"phrasings": words(suite["phrasings"])})
    edge, other = Edge.load(path), None if against is None else Edge.load(against)
    asked = _not_met(asked, [edge] if other is None else [edge, other])
    asked.passages()  # a wrong task or size is told before the model is opened
    name, opened_model, reader = opened(model, dtype, trust_remote_code, quiet=as_json)
    asked = replace(asked, lengths=readable(asked.lengths, opened_model))
    comparison, folder = compared(opened_model, reader, edge, asked, runs, as_json, other)
    report = write_report(name, edge, asked, comparison, out or folder / "report.html")
    show(comparison, report, as_json)


def _not_met(suite: Suite, edges: list[Edge]) -> Suite:
    """The suite without the prompts that edges were calibrated on: of its own file a fifth was kept for testing."""
    from strop.tasks.catalogue import own_checksum

    recipes = [recipe for edge in edges if (recipe := edge.made.get("recipe") or {}).get("data") is not None]
    if suite.data is None or not recipes:
        return suite
    prompts = own_checksum(suite.data)
    seeds = {recipe["seed"] for recipe in recipes if recipe.get("prompts") == prompts}
    remedy = "Give other prompts"
    require(len(seeds) < 2, "both edges must keep the same fifth of these prompts for testing", "two seeds", remedy)
    for recipe in recipes:
        if recipe.get("prompts") != prompts:
            output.note(f"An edge was calibrated on prompts of {recipe['data']}: any of those here would flatter it.")
    if not seeds:
        return suite
    output.note("An edge was calibrated on these prompts: they are measured on the fifth kept for testing.")
    return replace(suite, held=True, seed=seeds.pop())


def compared(
    model: nn.Module, reader: Reader, edge: Edge, suite: Suite, runs: Path, quiet: bool, other: Edge | None = None
) -> tuple[Comparison, Path]:
    """Measure without the edge (or with another) and with it, or read what was measured; also the second's folder."""
    from strop.calibrate.identity import fingerprint
    from strop.evaluate.suite import compare
    from strop.evaluate.suite import kept as measured
    from strop.records import Run

    for one in (edge, other):
        if one is not None:
            one.check(model)  # before minutes are spent on the untouched model
    common = {"suite": suite, "prompts": suite.checksum(), "model": fingerprint(model), "dtype": _dtype(model)}
    count = 2 * sum(len(passage.questions) for passage in suite.passages())
    kept(f"finished measurements in {runs}/evaluate; the same command continues")
    found, run = [], None
    with output.progress("answering", count, quiet=quiet) as bar:
        for one in (other, edge):
            config = common | {"edge": None if one is None else one.digest}
            run = Run.of(config, "evaluate", runs)
            with nullcontext() if one is None else one.applied(model):
                found.append(measured(run, config, model, reader, suite, bar.advance))
    assert run is not None
    return compare(*found), run.folder


def write_report(name: str, edge: Edge, suite: Suite, comparison: Comparison, path: Path) -> Path:
    """Write the page of a comparison."""
    from strop.report.calibrate import page

    settings = {"model": name, "edge": edge.form + (" and outputs" if edge.outputs and edge.form != "none" else "")}
    unused = () if suite.data is None else OF_BUILT_IN
    more = {key: str(value) for key, value in vars(suite).items() if value not in (None, ()) and key not in unused}
    page(comparison.answers, comparison.prose, edge.heads(), comparison.speed, {**settings, **more}).write(path)
    return path


def show(comparison: Comparison, report: Path, as_json: bool, **more: Any) -> None:
    """Print what was found."""
    from strop.report.calibrate import answers_table, prose_table, verdict

    if as_json:
        found = {"answers": comparison.answers, "prose": comparison.prose, "speed": comparison.speed}
        output.show_json(
            {**found, "verdict": verdict(comparison.answers, comparison.prose), "report": str(report), **more}
        )
        return
    output.show(answers_table(comparison.answers))
    output.show(prose_table(comparison.prose))
    output.say(verdict(comparison.answers, comparison.prose))
    output.say(f"\nReport: {report}")


def _dtype(model: nn.Module) -> str:
    return str(next(model.parameters()).dtype).removeprefix("torch.")
