"""An experiment: may an edge be fitted to one prompt alone? A few steps on its numbers, from echoes of that prompt.

    python benchmarks/per_context.py            # about ten minutes of one core; goes on if interrupted
    python benchmarks/per_context.py --show     # the table of what is there

The cache of a long prompt is kept. Excerpts of the prompt are said again after it, and STEPS steps of Adam make them
likelier: they move the numbers of an edge, which act on the queries of what is read after the prompt, so that the cache
stays as it is (the idea of qTTT, on the numbers of an edge). Then the prompt's questions are answered from the same
cache. Prompts are look-up passages of 96 pairs with similar keys in the validation wordings. The rate of each variant
is the best of three on TUNING prompts; the table is of others.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import strop
from strop.calibration.numbers import Numbers
from strop.evaluation.paired import flip_p, wilson_interval
from strop.patching.freeze import freeze
from strop.pretrained.load import open_model
from strop.records import atomic_path
from strop.tasks.answers import Encoded, Reader
from strop.tasks.catalogue import draw_passages

MODEL, EDGE = "smollm2", Path("examples/edges/smollm2-lookup.safetensors")
RESULTS = Path(__file__).parent / "results" / "per_context.json"
PAIRS, QUESTIONS, STEPS, RANK = 96, 18, 4, 8
EXCERPTS, TOKENS, LEAD = 6, 40, 8
"""Echoes a step, their length, and the tokens at their beginning by which one finds out what is being said again."""

TUNING, TESTED = 2, 8


class Variant(NamedTuple):
    """What is learned from a prompt; `shipped` begins with the shipped edge, under which the prompt was read too."""

    form: str | None
    shipped: bool
    rates: tuple[float, ...] = ()


VARIANTS = {
    "untouched": Variant(None, False),
    "shipped edge": Variant(None, True),
    "constant, from zero": Variant("constant", False, (0.01, 0.03, 0.1)),
    "query of rank 8, from zero": Variant("query", False, (0.002, 0.006, 0.02)),
    "query of rank 8, from the shipped edge": Variant("query", True, (0.0005, 0.002, 0.006)),
}


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    edge = strop.Edge.load(EDGE)
    kept = read(edge)
    if not parser.parse_args().show:
        opened = open_model(MODEL, None, None, False, "auto", "auto")
        reader = Reader(opened.tokenizer)
        prompts = [reader.encode(one) for one in draw_prompts()]
        with freeze(opened.model):
            for place, name, rate in find_work(kept):
                kept[f"{name} {rate} {place}"] = measure(
                    opened.model, edge, VARIANTS[name], rate, prompts[place], place
                )
                write(kept)
                print(name, rate, place, kept[f"{name} {rate} {place}"]["nats"], flush=True)
    print("\n".join(tabulate(kept)))


def draw_prompts() -> list[Any]:
    """Return the prompts, both wordings in turn."""
    half = (TUNING + TESTED) // 2
    drawn = draw_passages("lookup-similar", "validation", 0, (PAIRS,), ("shelf", "call"), half, QUESTIONS)
    return [passage for pair in zip(drawn[:half], drawn[half:], strict=True) for passage in pair]


def find_work(kept: dict[str, Any]) -> Iterator[tuple[int, str, float]]:
    """Yield prompt, variant and rate: all rates on the first prompts, then the best on the others."""
    for place in range(TUNING + TESTED):
        for name, variant in VARIANTS.items():
            rates = (variant.rates or (0.0,)) if place < TUNING else (choose_rate(kept, name),)
            yield from ((place, name, rate) for rate in rates if f"{name} {rate} {place}" not in kept)


def choose_rate(kept: dict[str, Any], name: str) -> float:
    """Return the rate with the likeliest answers on the prompts to choose by."""
    rates = VARIANTS[name].rates or (0.0,)
    return min(rates, key=lambda rate: sum(kept[f"{name} {rate} {place}"]["nats"] for place in range(TUNING)))


def measure(model: Any, edge: strop.Edge, variant: Variant, rate: float, prompt: Encoded, seed: int) -> dict[str, Any]:
    """Read a prompt, fit to it, and answer its questions."""
    with edge.put_on(model) if variant.shipped else nullcontext(), torch.no_grad():
        cache = model(input_ids=prompt.context, use_cache=True, logits_to_keep=1).past_key_values
    began, losses = time.monotonic(), list[float]()
    if variant.form is None:
        change: Any = edge.put_on(model) if variant.shipped else nullcontext()
    else:
        numbers = Numbers(model, variant.form, True, RANK)
        if variant.shipped:
            begin_with(numbers, edge)
        losses = fit(model, numbers, cache, prompt, rate, seed)
        change = numbers.on(model)
    fitted = time.monotonic() - began
    with change, torch.no_grad():
        found = score(model, cache, prompt.ids)
    wanted, following = prompt.targets[:, 1:], prompt.ids[:, 1:]
    chosen = found.gather(-1, following[..., None])[..., 0]
    exact = [bool((found.argmax(-1) == following)[i][wanted[i]].all()) for i in range(len(wanted))]
    return {"exact": exact, "nats": -float(chosen[wanted].mean()), "echoes": losses, "seconds": fitted}


def fit(model: Any, numbers: Numbers, cache: Any, prompt: Encoded, rate: float, seed: int) -> list[float]:
    """Take the steps; return the loss on echoes before each of them."""
    optimiser, losses = torch.optim.Adam(numbers.parameters(), lr=rate), []
    draw, context = torch.Generator().manual_seed(seed), prompt.context[0]
    for _ in range(STEPS):
        starts = torch.randint(0, len(context) - TOKENS, (EXCERPTS,), generator=draw).tolist()
        last = prompt.ids[:1, 0].expand(EXCERPTS)[:, None]
        ids = torch.cat([last, torch.stack([context[start : start + TOKENS] for start in starts])], 1)
        with numbers.on(model):
            scores = score(model, cache, ids).gather(-1, ids[:, 1:, None])[..., 0]
            loss = -scores[:, LEAD:].mean()
            optimiser.zero_grad()
            loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


def score(model: Any, cache: Any, ids: Tensor) -> Tensor:
    """Log-probabilities after every token but the last, beside each other after the same prompt."""
    mine = copy.deepcopy(cache)
    mine.batch_repeat_interleave(len(ids))
    logits: Tensor = model(input_ids=ids[:, :-1], past_key_values=mine, use_cache=True).logits
    return logits.float().log_softmax(-1)


@torch.no_grad()
def begin_with(numbers: Numbers, edge: strop.Edge) -> None:
    """Put an edge's numbers in the place of zeros."""
    for term, named in numbers.parts.items():
        for name, part in named.items():
            for field, value in edge.parts[term][name].tensors().items():
                getattr(part, field).copy_(value)


def tabulate(kept: dict[str, Any]) -> Iterator[str]:
    """Yield the table: exact answers with intervals, nats, and what was gained over the model that one began with."""
    yield "| | rate | exact answers, % (95 %) | nats | against where it began, nats | p (prompts) | seconds a prompt |"
    yield "|---|---|---|---|---|---|---|"
    tested = [p for p in range(TUNING, TUNING + TESTED) if all(_find(kept, name, p) for name in VARIANTS)]
    for name, variant in VARIANTS.items() if tested else ():
        rows, base = ([_find(kept, one, p) for p in tested] for one in (name, _begin_of(variant)))
        exact = [one for row in rows for one in row["exact"]]
        low, high = wilson_interval(sum(exact), len(exact))
        changes = [row["nats"] - before["nats"] for row, before in zip(rows, base, strict=True)]
        shown = f"{sum(changes) / len(changes):+.3f} | {flip_p(changes):.0e}" if variant.form else " | "
        nats, seconds = (sum(row[key] for row in rows) / len(rows) for key in ("nats", "seconds"))
        rate = f"{choose_rate(kept, name):g}" if variant.form else ""
        share = f"{100 * sum(exact) / len(exact):.1f} ({100 * low:.0f}–{100 * high:.0f})"
        yield f"| {name} | {rate} | {share} | {nats:.3f} | {shown} | {seconds:.1f} |"
    yield f"\n{len(tested)} prompts of {QUESTIONS} questions; rates chosen on {TUNING} others."


def _begin_of(variant: Variant) -> str:
    return "shipped edge" if variant.shipped else "untouched"


def _find(kept: dict[str, Any], name: str, place: int) -> Any:
    return next(
        (kept[f"{name} {r} {place}"] for r in VARIANTS[name].rates or (0.0,) if f"{name} {r} {place}" in kept), None
    )


def read(edge: strop.Edge) -> dict[str, Any]:
    """Return what has been measured with this edge."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return kept if kept.get("edge") == edge.digest else {"edge": edge.digest}


def write(kept: dict[str, Any]) -> None:
    """Keep it."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in kept.items())
    with atomic_path(RESULTS) as temporary:
        temporary.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
