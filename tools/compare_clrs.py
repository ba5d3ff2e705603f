"""Hold the questions of strop.studies.clrs.text against dm-clrs, both ways.

dm-clrs brings jax and tensorflow, so it lives in an environment of its own:

    python -m venv build/clrs && build/clrs/bin/pip install dm-clrs
    python tools/compare_clrs.py draw build/ours.jsonl               # 1,000 inputs an algorithm, and our text
    build/clrs/bin/python tools/compare_clrs.py solve build/ours.jsonl build/ours-2.jsonl
    build/clrs/bin/python tools/compare_clrs.py sample build/ours.jsonl build/theirs.jsonl    # 1,000 of its own
    build/clrs/bin/python tools/compare_clrs.py solve build/theirs.jsonl build/theirs-2.jsonl
    python tools/compare_clrs.py compare build/ours-2.jsonl build/theirs-2.jsonl tests/studies/clrs/dm_clrs.json

dm-clrs sorts by numpy's default, which leaves the order of equal numbers open (and to the machine); three decimals make
equal numbers common. Texts that differ are solved again with numpy's stable sort, which strop's order is. `compare`
prints how many texts are equal, with either sort, and writes hashes of dm-clrs's texts to the questions that strop
draws: tests/studies/clrs/test_clrs_text.py holds strop to them where dm-clrs is not installed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SAMPLES = 1000
SIZES = (4, 5, 7, 10, 11, 12, 15, 16)
BLOCK = 100
"""Questions that share a hash."""


def draw(path: str) -> None:
    """Write our questions, with their inputs."""
    from strop.studies.clrs.text import ALGORITHMS
    from strop.studies.problems import stream

    with open(path, "w") as file:
        for name, algorithm in ALGORITHMS.items():
            generator = stream("dm-clrs", name)
            for i in range(SAMPLES):
                inputs = algorithm.draw(SIZES[i % len(SIZES)], generator)
                row = {"algorithm": name, "inputs": inputs, "ours": algorithm.ask(inputs).text}
                file.write(json.dumps(row) + "\n")


def solve(path: str, out: str) -> None:
    """Add dm-clrs's text to given inputs, and that with a stable sort (runs where dm-clrs is)."""
    with open(out, "w") as file:
        for row in _read(path):
            row["theirs"] = _solve_one(row["algorithm"], row["inputs"])
            with _stable_sort():
                row["stable"] = _solve_one(row["algorithm"], row["inputs"])
            file.write(json.dumps(row) + "\n")


def _solve_one(name: str, inputs: dict[str, Any]) -> str:
    from clrs._src import algorithms, probing, samplers, specs
    from clrs._src.clrs_text import clrs_utils

    _, probes = getattr(algorithms, name)(*_arguments(name, inputs))
    shown, outputs, hints = probing.split_stages(probes, specs.SPECS[name])
    drawn = samplers.Feedback(samplers.Features(shown, hints, [0]), outputs)
    return "".join(clrs_utils.format_clrs_example(name, drawn))


@contextmanager
def _stable_sort() -> Iterator[None]:
    import numpy as np

    default = np.argsort
    np.argsort = lambda values: default(values, kind="stable")
    try:
        yield
    finally:
        np.argsort = default


def _arguments(name: str, inputs: dict[str, Any]) -> list[Any]:
    """Inputs as the functions of dm-clrs take them."""
    import numpy as np

    inputs = {key: value for key, value in inputs.items() if key not in ("pos", "adj")}
    arrays = {key: np.array(value) if isinstance(value, list) else value for key, value in inputs.items()}
    if "string" in arrays:
        return [arrays["key"][arrays["string"] == mark] for mark in (0, 1)]
    if name == "binary_search":
        return [arrays["target"], arrays["key"]]
    if name == "optimal_bst":
        return [arrays["p"][:-1], arrays["q"]]
    return [arrays["A"], arrays["s"]] if {"A", "s"} <= set(arrays) else list(arrays.values())


def sample(ours: str, path: str) -> None:
    """Write inputs that dm-clrs draws for the same algorithms (runs where dm-clrs is); `solve` adds its text."""
    from clrs._src import samplers

    with open(path, "w") as file:
        for name in dict.fromkeys(row["algorithm"] for row in _read(ours)):
            made = [samplers.build_sampler(name, -1, seed=size, length=size, track_max_steps=False, truncate_decimals=3)
                    for size in SIZES]  # fmt: skip
            for i in range(SAMPLES):
                drawn = made[i % len(SIZES)][0].next(batch_size=1)
                inputs = {point.name: _plain(point) for point in drawn.features.inputs}
                file.write(json.dumps({"algorithm": name, "inputs": inputs}) + "\n")


def _plain(point: Any) -> Any:
    data = point.data[0]
    if point.type_ == "mask_one":
        return int(data.argmax())
    if point.type_ == "categorical":
        return data.argmax(-1).tolist()
    return data.astype(int).tolist() if point.type_ == "mask" else data.tolist()


def compare(ours: str, theirs: str, out: str) -> None:
    """Say how many texts are equal, and write the hashes."""
    from strop.studies.clrs.text import ALGORITHMS

    equal: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    texts: dict[str, list[str]] = defaultdict(list)
    for column, path in enumerate((ours, theirs)):
        for row in _read(path):
            algorithm = ALGORITHMS[row["algorithm"]]
            text = algorithm.ask({name: row["inputs"][name] for name in algorithm.shown}).text
            for offset, sort in enumerate(("theirs", "stable")):
                equal[algorithm.name][2 * column + offset] += text == row[sort]
            if column == 0:
                texts[algorithm.name].append(row["stable"])
    for name, (own, own_stable, drawn, drawn_stable) in equal.items():
        print(f"{name:30} drawn by strop: {own} equal, {own_stable} with a stable sort; "
              f"drawn by dm-clrs: {drawn} equal, {drawn_stable} with a stable sort")  # fmt: skip
    golden = {name: list(hash_blocks(found)) for name, found in texts.items()}
    Path(out).write_text(json.dumps({"sizes": SIZES, "block": BLOCK, "sha256": golden}, indent=1) + "\n")


def hash_blocks(texts: list[str]) -> Iterator[str]:
    """The first 16 digits of sha256 of every block of texts."""
    for start in range(0, len(texts), BLOCK):
        yield hashlib.sha256("".join(texts[start : start + BLOCK]).encode()).hexdigest()[:16]


def _read(path: str) -> Iterator[dict[str, Any]]:
    with open(path) as file:
        yield from map(json.loads, file)


if __name__ == "__main__":
    {"draw": draw, "solve": solve, "sample": sample, "compare": compare}[sys.argv[1]](*sys.argv[2:])
