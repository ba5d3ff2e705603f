"""What makes llama.cpp answer unlike transformers: one file, opened in several ways, answer by answer.

    python benchmarks/export_rounding.py                          # a quarter of an hour on one core
    python benchmarks/export_rounding.py --prompts 32 --lines "sharpened room 16" --results /tmp/rounding.jsonl

The same weights are read as the file has them (Q4_1, whose products round activations to eight bits) and as float32;
llama.cpp's cache and attention are as it has them (float16, fused) and in float32. Each is compared with transformers
on the same prompts. transformers with inputs rounded to eight bits is the test of the explanation: it must
differ as much. Every passage is kept in --results: the same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from math import ceil
from pathlib import Path
from typing import Any

import torch
from export import EDGE, QUESTIONS, read_results
from export_tasks import group, tabulate_pair
from llama_cpp import LlamaCpp
from torch import Tensor, nn

import strop
from strop import records
from strop.exporting.gguf_blocks import Stored, read_numbers
from strop.exporting.gguf_file import GGUFFile
from strop.patching.freeze import freeze
from strop.pretrained import load_model
from strop.pretrained.gguf_head import Kind
from strop.pretrained.sources import find_gguf
from strop.tasks.answers import Encoded, Reader, answer_questions
from strop.tasks.catalogue import draw_passages

ROOT = Path(__file__).parents[1]
Answering = Callable[[Encoded], list[bool]]
PLAIN = "transformers"
ENGINES = (
    PLAIN, "transformers, inputs in 8 bits", "llama.cpp", "llama.cpp, cache and attention in F32",
    "llama.cpp, weights in F32", "llama.cpp, all in F32",
)  # fmt: skip
BLOCK, LEVELS = 32, 127
"""Numbers that llama.cpp rounds together, and the largest whole number that it gives one."""


def read_arguments() -> argparse.Namespace:
    """Return what to measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--lines", default="sharpened room 16,untouched code 64,untouched dial 64", help="file, phrasing and pairs"
    )
    parser.add_argument("--prompts", type=int, default=208, help="prompts of each line")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "export_rounding.jsonl")
    return parser.parse_args()


def measure(given: argparse.Namespace, model: nn.Module, reader: Reader, folder: Path) -> None:
    """Measure what is not yet in the results, line by line and engine by engine."""
    done = {(row["engine"], row["work"]) for row in read_results(given.results)}
    for line in given.lines.split(","):
        state, phrasing, size = line.split()
        passages = draw_passages(
            "recall", "test", 0, (int(size),), (phrasing,), ceil(given.prompts / QUESTIONS), QUESTIONS
        )
        for engine in ENGINES:
            left = [(f"{line} {i}", one) for i, one in enumerate(passages) if (engine, f"{line} {i}") not in done]
            if not left:
                continue
            with opened(engine, state == "sharpened", model, folder, given.threads) as answer:
                for name, passage in left:
                    right = "".join("-+"[one] for one in answer(reader.encode(passage)))
                    records.append(given.results, [{"engine": engine, "work": name, "right": right}])
                    print(engine, name, right, flush=True)


@contextmanager
def opened(engine: str, sharp: bool, model: nn.Module, folder: Path, threads: int) -> Iterator[Answering]:
    """Yield what answers a passage's questions."""
    if engine.startswith("llama.cpp"):
        whole = engine.endswith("all in F32")
        kind = "F32" if whole or engine.endswith("weights in F32") else "own"
        file = folder / f"{kind}-{'sharp' if sharp else 'plain'}.gguf"
        yield LlamaCpp(file, threads=threads, exact=whole or engine.endswith("attention in F32")).answer
        return
    rounding = rounded_inputs(model) if engine.endswith("8 bits") else nullcontext()
    with strop.sharpened(model, strop.Edge.load(EDGE)) if sharp else nullcontext(), freeze(model), rounding:
        yield lambda encoded: [answer.exact for answer in answer_questions(model, encoded)]


@contextmanager
def rounded_inputs(model: nn.Module) -> Iterator[None]:
    """Round what every linear layer takes to eight bits, in blocks, as llama.cpp does beside quantised weights."""

    def round_it(_: nn.Module, taken: tuple[Any, ...]) -> tuple[Any, ...]:
        return (round_blocks(taken[0]), *taken[1:])

    hooks = [one.register_forward_pre_hook(round_it) for one in model.modules() if isinstance(one, nn.Linear)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def round_blocks(numbers: Tensor) -> Tensor:
    """Return numbers [..., n] as llama.cpp's Q8_0 and Q8_1 hold them: whole numbers times a float16 for each block."""
    blocks = numbers.unflatten(-1, (-1, BLOCK))
    scale = blocks.abs().amax(-1, keepdim=True) / LEVELS
    whole = (blocks / scale.clamp(min=1e-30)).round()
    return (whole * scale.half().float()).flatten(-2)


def write_files(model: nn.Module, folder: Path) -> None:
    """Write the file as it is and in float32, both also sharpened."""
    own = find_gguf("smollm2")[0]
    (folder / "own-plain.gguf").symlink_to(own)
    file = GGUFFile(own)
    floats = {name: Stored(read_numbers(one.data, one.kind), Kind.F32, 0.0) for name, one in file.tensors.items()}
    file.write(folder / "F32-plain.gguf", floats, {})
    for kind in ("own", "F32"):
        plain = folder / f"{kind}-plain.gguf"
        print(strop.export(model, EDGE, to="gguf", out=folder / f"{kind}-sharp.gguf", gguf=plain), flush=True)


def tabulate(rows: list[records.Record]) -> Iterator[str]:
    """Yield the table: every engine beside transformers, line by line."""
    yield "| | transformers, % (95 %) | this engine, % (95 %) | answers | p: prompts, passages |"
    yield "|---|---|---|---|---|"
    for line, by_engine in group(rows).items():
        for engine in ENGINES[1:]:
            if engine in by_engine and by_engine[engine].keys() == by_engine[PLAIN].keys():
                yield tabulate_pair(f"{line}: {engine}", by_engine[PLAIN], by_engine[engine])


def main() -> None:
    """Write the files, measure, print the table."""
    given = read_arguments()
    torch.set_num_threads(given.threads)
    model, tokeniser = load_model("smollm2")
    with tempfile.TemporaryDirectory() as folder:
        write_files(model, Path(folder))
        measure(given, model, Reader(tokeniser), Path(folder))
    print("\n".join(tabulate(read_results(given.results))))


if __name__ == "__main__":
    main()
