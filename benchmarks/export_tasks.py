"""A GGUF file and its sharpened copy in llama.cpp, on the built-in tasks, with paired tests.

    strop calibrate gemma3-270m --form pairs --guard-leads
    python benchmarks/export_tasks.py gemma3-270m --edge edge.safetensors

Every passage is kept in --results when it is done: the same command goes on after an interruption. A kept passage is
used again: choose other --results for another model, edge or --questions.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from export import read_results
from llama_cpp import LlamaCpp

import strop
from strop import records
from strop.evaluation.paired import mcnemar_p, sign_flip_p, wilson_interval
from strop.pretrained import load_model
from strop.pretrained.convert import join_parts
from strop.pretrained.sources import find_gguf
from strop.tasks.answers import Encoded, Reader
from strop.tasks.catalogue import find_task, generator_of
from strop.tasks.passages import sample

ROOT = Path(__file__).parents[1]
TASKS = "recall,counting,variables,maximum,passkey"


def read_arguments() -> argparse.Namespace:
    """Return what to measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="gemma3-270m, smollm2 or a GGUF file")
    parser.add_argument("--edge", type=Path, required=True)
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--sizes", default="16")
    parser.add_argument("--prompts", type=int, default=200, help="prompts of each task, size and phrasing")
    parser.add_argument("--questions", type=int, default=8, help="prompts that share a passage")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "runs" / "export_tasks.jsonl")
    return parser.parse_args()


def find_work(given: argparse.Namespace, reader: Reader) -> Iterator[tuple[str, Encoded]]:
    """Yield passages by a name of their own: of one phrasing that calibration uses, and of all held-out ones."""
    for task in map(find_task, given.tasks.split(",")):
        for size in map(int, given.sizes.split(",")):
            for phrasing in (task.open_phrasings[0], *task.held_out):
                draw, count = generator_of("test", 0), 0
                while count < given.prompts:
                    [passage] = sample(task, 1, size, [phrasing], draw, given.questions)
                    yield f"{task.name} {phrasing} {size} {count}", reader.encode(passage)
                    count += len(passage.questions)


def measure(given: argparse.Namespace, reader: Reader, files: dict[str, Path]) -> None:
    """Measure what is not yet in the results, with the file as it was and with the sharpened one."""
    kept = {(row["engine"], row["work"]) for row in read_results(given.results)}
    for engine, file in files.items():
        left = [(name, work) for name, work in find_work(given, reader) if (engine, name) not in kept]
        llama = LlamaCpp(file, threads=given.threads) if left else None
        for name, work in left:
            assert llama is not None
            row: records.Record = {
                "engine": engine,
                "work": name,
                "right": "".join("-+"[one] for one in llama.answer(work)),
            }
            records.append(given.results, [row])
            print(engine, name, row["right"], flush=True)


def group(rows: list[records.Record]) -> dict[str, dict[str, dict[str, str]]]:
    """Return kind of work → engine → which passage → its answers, right or wrong."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        kind, _, at = str(row["work"]).rpartition(" ")
        found.setdefault(kind, {}).setdefault(str(row["engine"]), {})[at] = str(row["right"])
    return found


def tabulate(rows: list[records.Record]) -> Iterator[str]:
    """Yield the table, a line for each task, phrasing and size of which both files read all passages."""
    yield "| | untouched, % (95 %) | sharpened, % (95 %) | answers | p: prompts, passages |"
    yield "|---|---|---|---|---|"
    for kind, by_engine in group(rows).items():
        before, after = (by_engine.get(engine, {}) for engine in ("untouched", "sharpened"))
        if before and before.keys() == after.keys():
            name, _, size = kind.rpartition(" ")
            task, _, phrasing = name.partition(" ")
            yield tabulate_pair(f"{task} “{phrasing}”, {size}", before, after)


def tabulate_pair(name: str, before: dict[str, str], after: dict[str, str]) -> str:
    """Return one line: shares with intervals, answers gained and lost, McNemar's test and that over passages."""
    then, now = ([sign == "+" for at in before for sign in side[at]] for side in (before, after))
    passages = [i for i, at in enumerate(before) for _ in before[at]]
    cells = []
    for right in (then, now):
        low, high = wilson_interval(sum(right), len(right))
        cells.append(f"{100 * sum(right) / len(right):.1f} ({100 * low:.0f}–{100 * high:.0f})")
    gains, losses = (sum(b and not a for a, b in zip(*pair, strict=True)) for pair in ((then, now), (now, then)))
    tests = f"{mcnemar_p(then, now):.1g}, {sign_flip_p(then, now, passages):.1g}"
    return f"| {name}, {len(then)} prompts | {' | '.join(cells)} | +{gains} −{losses} | {tests} |"


def main() -> None:
    """Sharpen the file, measure both, print the table."""
    given = read_arguments()
    _, tokeniser = load_model(given.model)
    with tempfile.TemporaryDirectory() as folder:
        files = {"untouched": join_parts(find_gguf(given.model), Path(folder) / "plain.gguf")}
        files["sharpened"] = Path(folder) / "sharp.gguf"
        print(strop.export(given.model, given.edge, to="gguf", out=files["sharpened"]), flush=True)
        measure(given, Reader(tokeniser), files)
    print("\n".join(tabulate(read_results(given.results))))


if __name__ == "__main__":
    main()
