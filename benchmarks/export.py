"""A sharpened GGUF file in llama.cpp beside the same edge on the transformers model that the file was converted to.

    python benchmarks/export.py                                   # make bench-export; an hour on two cores
    python benchmarks/export.py --prompts 20 --phrasings code --sizes 16 --windows 1 --results /tmp/export.jsonl

Every passage and every window is kept in --results when it is done: the same command goes on after an interruption.
The table goes to docs/export.md where the results are the whole of it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from llama_cpp import LlamaCpp
from pages import put_table

import strop
from strop import records
from strop.evaluation.answers import score_prose
from strop.evaluation.paired import wilson_interval
from strop.patching.freeze import freeze
from strop.pretrained import load_model
from strop.pretrained.sources import find_gguf
from strop.tasks.answers import Reader, answer_questions
from strop.tasks.catalogue import draw_passages
from strop.tasks.prose import cut_windows, read_prose

ROOT = Path(__file__).parents[1]
EDGE = ROOT / "examples" / "edges" / "smollm2-recall.safetensors"
PAGE = ROOT / "docs" / "export.md"
ENGINES = ("transformers", "transformers, patched", "llama.cpp", "llama.cpp, sharpened")
QUESTIONS = 16
LENGTH = 256


def read_arguments() -> argparse.Namespace:
    """Return what to measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=200, help="prompts of each size and phrasing")
    parser.add_argument("--sizes", default="16,64")
    parser.add_argument("--phrasings", default="code,room,dial")
    parser.add_argument("--windows", type=int, default=16, help=f"windows of {LENGTH} tokens of prose")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "export.jsonl")
    return parser.parse_args()


def find_work(given: argparse.Namespace, reader: Reader) -> Iterator[tuple[str, Any]]:
    """Yield everything to be measured with each engine, by a name of its own: passages, then windows of prose."""
    count = math.ceil(given.prompts / QUESTIONS)
    for size in map(int, given.sizes.split(",")):
        for phrasing in given.phrasings.split(","):
            passages = draw_passages("recall", "test", 0, (size,), (phrasing,), count, QUESTIONS)
            yield from ((f"{phrasing} {size} {i}", reader.encode(passage)) for i, passage in enumerate(passages))
    windows = cut_windows(reader, read_prose("test"), LENGTH, given.windows) if given.windows else []
    yield from ((f"prose {LENGTH} {i}", window) for i, window in enumerate(windows))


def measure(given: argparse.Namespace, model: Any, reader: Reader, sharp: Path) -> None:
    """Measure what is not yet in the results, one engine after the other."""
    done = {(row["engine"], row["work"]) for row in read_results(given.results)}
    edge = strop.Edge.load(EDGE)
    for engine in ENGINES:
        left = [(name, work) for name, work in find_work(given, reader) if (engine, name) not in done]
        if not left:
            continue
        patched = edge.put_on(model) if engine.endswith("patched") else nullcontext()
        file = sharp if engine.endswith("sharpened") else find_gguf("smollm2")[0]
        with patched, freeze(model):
            one = by_transformers(model) if engine.startswith("transformers") else by_llama(file, given.threads)
            for name, work in left:
                found = one(work)
                records.append(given.results, [{"engine": engine, "work": name, **found}])
                print(engine, name, found, flush=True)


def by_transformers(model: Any) -> Callable[[Any], records.Record]:
    """Measure with transformers."""

    def one(work: Any) -> records.Record:
        if isinstance(work, torch.Tensor):
            return {"loss": score_prose(model, work[None])[0]}
        found = [answer.exact for answer in answer_questions(model, work)]
        return {"right": sum(found), "prompts": len(found)}

    return one


def by_llama(file: Path, threads: int) -> Callable[[Any], records.Record]:
    """Measure with llama.cpp."""
    engine = LlamaCpp(file, threads=threads)

    def one(work: Any) -> records.Record:
        if isinstance(work, torch.Tensor):
            return {"loss": engine.score(work)}
        found = engine.answer(work)
        return {"right": sum(found), "prompts": len(found)}

    return one


def read_results(path: Path) -> list[records.Record]:
    """Return what was measured."""
    return records.read(path, torn="drop") if path.exists() else []


def tabulate(rows: list[records.Record]) -> Iterator[str]:
    """Yield the table, a line for each size and phrasing, and one for prose."""
    yield "| | " + " | ".join(ENGINES) + " | sharpened − patched |"
    yield "|---" * (len(ENGINES) + 2) + "|"
    kinds = dict.fromkeys(str(row["work"]).rpartition(" ")[0] for row in rows)
    for kind in kinds:
        found = {
            engine: [row for row in rows if row["engine"] == engine and str(row["work"]).rpartition(" ")[0] == kind]
            for engine in ENGINES
        }
        if all(found.values()):
            yield tabulate_prose(kind, found) if kind.startswith("prose") else tabulate_answers(kind, found)


def tabulate_answers(kind: str, found: dict[str, list[records.Record]]) -> str:
    """Return the line of a size and phrasing: % right, with 95 % intervals."""
    phrasing, size = kind.split()
    cells, shares = [], []
    for rows in found.values():
        right, total = (sum(records.whole(row[key]) for row in rows) for key in ("right", "prompts"))
        low, high = wilson_interval(right, total)
        cells.append(f"{100 * right / total:.1f} ({100 * low:.0f}–{100 * high:.0f})")
        shares.append(100 * right / total)
    return f"| “{phrasing}”, {size} pairs, % of {total} | {' | '.join(cells)} | {shares[3] - shares[1]:+.1f} points |"


def tabulate_prose(kind: str, found: dict[str, list[records.Record]]) -> str:
    """Return the line of prose: perplexity."""
    losses = [sum(records.real(row["loss"]) for row in rows) / len(rows) for rows in found.values()]
    cells = " | ".join(f"{math.exp(loss):.3f}" for loss in losses)
    count = len(found[ENGINES[0]])
    name = f"perplexity of {count} × {kind.split()[1]} tokens of prose"
    return f"| {name} | {cells} | {100 * math.expm1(losses[3] - losses[1]):+.2f} % |"


def main() -> None:
    """Measure, print the table, and write it to its page where it is the whole one."""
    given = read_arguments()
    torch.set_num_threads(given.threads)
    model, tokeniser = load_model("smollm2")
    with tempfile.TemporaryDirectory() as folder:
        sharp = Path(folder) / "sharp.gguf"
        print(strop.export(model, EDGE, to="gguf", out=sharp, gguf=find_gguf("smollm2")[0]))
        measure(given, model, Reader(tokeniser), sharp)
    table = "\n".join(tabulate(read_results(given.results)))
    if given.results == ROOT / "benchmarks" / "results" / "export.jsonl":
        put_table(PAGE, "make bench-export", table)
    else:
        print(table)


if __name__ == "__main__":
    main()
