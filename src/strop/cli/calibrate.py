"""`strop calibrate MODEL`: per-head temperatures from a little data, weights frozen, as a file of a few kilobytes."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strop.cli import options, output
from strop.cli.evaluate import compared, show, write_report
from strop.cli.group import kept
from strop.cli.language import model_options, opened, readable, words

if TYPE_CHECKING:
    from torch import nn

    from strop.calibrate.edge import Edge
    from strop.calibrate.fit import Settings
    from strop.calibrate.recipe import Recipe
    from strop.evaluate.suite import Suite
    from strop.tasks.answers import Reader


OF_DESCENT = ("steps", "every", "rate", "budget", "guard", "harm", "guard_leads", "recompute", "sparsity")


@click.command(
    epilog=options.examples(
        "strop calibrate smollm2                                      # a β and an output scale per head, on recall",
        "strop calibrate smollm2 --form log-n --task passkey --sizes 8,40 --out passkey.safetensors",
        "strop calibrate smollm2 --no-outputs                         # temperatures alone",
        "strop calibrate smollm2 --form none                          # SEAL's output scales alone",
        "strop calibrate smollm2 --form hold                          # from statistics alone, no gradients",
        "strop calibrate smollm2 --task text                          # from text alone, no answers",
        "strop calibrate ./my-model --task jsonl --data prompts.jsonl --budget 0.005",
        "strop evaluate smollm2 --edge edge.safetensors --prompts 200 # then: the whole truth, on held-out prompts",
    )
)
@click.argument("model")
@click.option(
    "--task", default="recall", show_default=True, help="recall, maximum, passkey, variables, counting, jsonl, text."
)
@click.option("--data", type=click.Path(), help="Your own prompts: JSONL, {prompt, answer} a line.")
@click.option(
    "--form", default="constant", show_default=True, help="constant, log-n, polynomial, hold; none: outputs only."
)
@click.option(
    "--outputs/--no-outputs", default=True, show_default=True, help="Scale each head's output too, as SEAL does."
)
@click.option("--sizes", type=options.Integers(), default="8,24", show_default=True, help="Smallest and largest size.")
@click.option("--phrasings", help="Names between commas.  [default: all but the held-out ones]")
@click.option("--trusted", type=click.IntRange(min=16), default=256, show_default=True, help="Length: hold, text.")
@click.option("--steps", type=click.IntRange(min=1), default=42, show_default=True)
@click.option("--every", type=click.IntRange(min=1), default=14, show_default=True, help="Steps between validations.")
@click.option(
    "--rate", type=float, default=0.25, show_default=True, help="First step, as a share of the budget's radius."
)
@click.option("--budget", type=float, default=0.009, show_default=True, help="Drift allowed on prose, nats a token.")
@click.option("--guard", help="Tasks on which to do no harm, or none.  [default: the other built-in ones]")
@click.option(
    "--harm", type=float, default=0.05, show_default=True, help="What guarded answers may lose, nats a token."
)
@click.option("--guard-leads", is_flag=True, help="Guard what right answers lead by, not how likely they are.")
@click.option("--recompute", is_flag=True, help="Run layers twice instead of remembering them: less memory.")
@click.option("--sparsity", type=float, default=0.0, show_default=True, help="L1 penalty that leaves heads alone.")
@click.option(
    "--windows", type=click.IntRange(min=1), default=4, show_default=True, help="Texts of prose of each length."
)
@click.option(
    "--lengths", type=options.Integers(8), default="256,1024", show_default=True, help="Tokens of prose to hold still."
)
@click.option("--prose", type=click.Path(), help="UTF-8 text to hold still.  [default: Python's own documentation]")
@click.option(
    "--test-prompts", type=click.IntRange(min=0), default=48, show_default=True, help="Prompts a size; 0: no test."
)
@options.out("edge.safetensors", "Where to write the edge.")
@model_options
@options.seed
@options.threads
@options.json_flag
def command(model: str, threads: int | None, as_json: bool, out: Path, runs: Path, **given: Any) -> None:
    """Learn what each head of MODEL should do differently, and write it to a file.

    The weights stay frozen. What is kept is the best on validation prompts among all that stay within the budget of
    drift on ordinary prose and do no harm to other tasks; if nothing does, the edge does nothing. Figures are from a
    test split, held-out phrasings and larger sizes.
    """
    options.use_threads(threads)
    from strop.calibrate.fit import Settings
    from strop.calibrate.recipe import Recipe
    from strop.tasks.catalogue import own_checksum

    if given["form"] == "hold":
        options.refuse(OF_DESCENT, "--form hold, which only measures")
    settings = Settings(**{field.name: given[field.name] for field in fields(Settings) if field.name in given})
    recipe = Recipe(
        task=given["task"], sizes=_bounds(given["sizes"]), phrasings=words(given["phrasings"]), seed=given["seed"],
        data=_data(given), prose=given["prose"], trusted=given["trusted"],
        windows=given["windows"], lengths=given["lengths"], guard=_guard(given["guard"], given["task"]),
        guard_leads=given["guard_leads"],
    )  # fmt: skip
    checksum = recipe.checksum(settings.steps)  # wrong data are told before the model is opened
    suite = _suite(recipe, given["test_prompts"]) if given["test_prompts"] else None
    name, opened_model, reader = opened(model, given["dtype"], given["trust_remote_code"], quiet=as_json)
    recipe = replace(recipe, lengths=readable(recipe.lengths, opened_model))
    state = _state(opened_model, given["dtype"], recipe, settings, checksum, runs)
    edge = fitted(opened_model, reader, recipe, settings, state, as_json)
    data = {"checksum": checksum, "prompts": None if recipe.data is None else own_checksum(recipe.data)}
    edge = replace(edge, made={**edge.made, "model": name, "recipe": vars(recipe) | data})
    edge.save(out)
    if suite is None:
        _said(edge, out, as_json)
    else:
        _tested(name, opened_model, reader, edge, replace(suite, lengths=recipe.lengths), out, runs, as_json)
    state.unlink(missing_ok=True)  # not before: a test that is interrupted does not cost the calibration


def fitted(model: nn.Module, reader: Reader, recipe: Recipe, settings: Settings, state: Path, quiet: bool) -> Edge:
    """Calibrate with a bar; an interrupted calibration of the same data goes on. `hold` needs no descent."""
    if settings.form == "hold":
        return _held(model, reader, recipe, quiet)
    from strop.calibrate.fit import calibrate
    from strop.calibrate.state import Progress

    kept(f"the steps up to the last validation, in {state.parent}; the same command continues")
    with output.progress("calibrating", settings.steps, quiet=quiet) as bar:

        def tick(at: Progress) -> None:
            shown = f"calibrating: task {at.valid_task:.3f} nats, drift {at.valid_drift:.4f}, harm {at.valid_harm:.3f}"
            bar.update(completed=at.step, text=shown)

        return calibrate(
            model, recipe.batches(model, reader, settings.steps), recipe.prose_windows(reader, "train"),
            recipe.validation(model, reader), recipe.prose_windows(reader, "validation"), settings, tick, state,
            *recipe.guarded(reader),
        )  # fmt: skip


def _state(model: nn.Module, dtype: str, recipe: Recipe, settings: Settings, checksum: str, runs: Path) -> Path:
    """Where an unfinished calibration is kept: its name says everything that it depends on."""
    from strop.calibrate.identity import fingerprint
    from strop.records import short_id

    config = {"recipe": recipe, "settings": settings, "data": checksum, "model": fingerprint(model), "dtype": dtype}
    return runs / "calibrate" / short_id(config) / "state.safetensors"


def _held(model: nn.Module, reader: Reader, recipe: Recipe, quiet: bool) -> Edge:
    from strop.calibrate.hold import hold_entropy

    with output.progress("measuring entropies", None, quiet=quiet):
        return hold_entropy(model, recipe.texts(reader), recipe.trusted)


def _said(edge: Edge, out: Path, as_json: bool) -> None:
    summary = told(edge)
    output.show_json({"edge": str(out), "summary": summary}) if as_json else output.say(f"{summary}\n\nEdge: {out}")


def _tested(
    name: str, model: nn.Module, reader: Reader, edge: Edge, suite: Suite, out: Path, runs: Path, as_json: bool
) -> None:
    if not as_json:
        output.say(told(edge))
    comparison, folder = compared(model, reader, edge, suite, runs, as_json)
    edge = replace(edge, figures=(*comparison.answers, *comparison.prose))
    edge.save(out)
    show(comparison, write_report(name, edge, suite, comparison, folder / "report.html"), as_json, edge=str(out))
    if not as_json:
        output.say(f"Edge: {out}")


def _suite(recipe: Recipe, prompts: int) -> Suite:
    """The largest calibrated size and twice that, on phrasings of both kinds; of a user's own prompts, a fifth."""
    from strop.evaluate.suite import Suite

    largest = recipe.sizes[1]
    task = "recall" if recipe.task == "text" else recipe.task
    suite = Suite(
        task=task, sizes=(largest, 2 * largest), prompts=prompts, windows=4, seed=recipe.seed,
        data=recipe.data, prose=recipe.prose, held=True,
    )  # fmt: skip
    try:
        suite.passages()
    except ValueError:  # the task has no passages of twice the size
        suite = replace(suite, sizes=(largest,))
    return suite


def told(edge: Edge) -> str:
    """Say in two sentences what calibration did."""
    from collections import Counter

    count = Counter(row["done"] for row in edge.heads())
    heads = ", ".join(f"{number} {word}" for word, number in count.most_common())
    if edge.form == "hold":
        return f"Entropies held at their value at {edge.made['trusted']} keys. Heads: {heads}."
    progress = edge.made["progress"]
    return (
        f"Validation loss {progress['first_task']:.3f} → {progress['best_task']:.3f} nats at a drift of "
        f"{progress['best_drift']:.4f} nats a token and a harm of {progress['best_harm']:.3f} nats to guarded tasks "
        f"(step {progress['best_step']}, {progress['seconds']:.0f} s). "
        f"Heads: {heads}."
    )


def _bounds(sizes: tuple[int, ...]) -> tuple[int, int]:
    if len(sizes) != 2:
        raise ValueError(f"--sizes must be the smallest and the largest, got {sizes}. For example 8,24.")
    return sizes


def _data(given: dict[str, Any]) -> str | None:
    if (given["task"] == "jsonl") != (given["data"] is not None):
        raise ValueError(f"--data must come with --task jsonl, got --task {given['task']}. Give both or neither.")
    return given["data"]  # type: ignore[no-any-return]


def _guard(given: str | None, task: str) -> tuple[str, ...]:
    from strop.tasks.catalogue import others, task_named

    if given is None:
        return others(task)
    return () if given == "none" else tuple(task_named(name).name for name in words(given))
