"""The results of benchmarks/native.py as Markdown, printed and put between two marks of docs/native.md."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pages import put_table


def write(results: dict[str, Any], page: Path) -> None:
    """Print the tables and replace those of the page."""
    put_table(page, "make bench-native", "\n".join(tables(results)))


def tables(results: dict[str, Any]) -> Iterator[str]:
    """Yield all lines."""
    yield f"{_machine(results, 'prefill')}\n"
    yield "| case | aim | one thread | two threads | met |\n|---|---|---|---|---|"
    for name, aim, cell in _summary(results):
        one, two = (cell(threads) if _has(results, threads) else "–" for threads in ("1", "2"))
        yield f"| {name} | {aim} | {one} | {two} | {_verdict(results, name)} |"
    yield ""
    yield "| d | n | heads | | torch ms | torch GFLOP/s | adaptive GFLOP/s | adaptive ÷ torch | statistics ÷ torch |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in results.get("prefill", {}).get("1", []):
        kind = "causal" if row["causal"] else "full"
        yield (
            f"| {row['d']} | {row['n']} | {row['heads']} | {kind} | {row['torch_ms']:.1f} "
            f"| {row['torch_gflops']:.0f} | {row['adaptive_gflops']:.0f} | {row['adaptive_ratio']:.2f} "
            f"| {row['statistics_ratio']:.2f} |"
        )
    yield from _training(results)
    yield "\nOne thread. GFLOP/s count the two matrix products, seven with those of the backward pass;"
    yield "of the visible half only where causal."


def _training(results: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of forward and backward together."""
    found = results.get("training", {})
    if not found:
        return
    yield f"\nForward and backward: {_machine(results, 'training')}"
    yield "\n| forward and backward | aim | one thread | two threads |\n|---|---|---|---|"
    for name, aim, key in (
        ("adaptive ÷ torch plain, geometric mean (range)", "≤ 1.3, none above 1.6", "adaptive_ratio"),
        ("plain softmax ÷ torch plain", "≤ 1.0", "plain_ratio"),
    ):
        yield f"| {name} | {aim} | " + " | ".join(_spread(found.get(t, []), key) for t in ("1", "2")) + " |"
    for part, name, aim, key in (
        ("training_entmax", "1.5-entmax, times faster than PyPI entmax, n = 4096", "≥ 5", "times_faster"),
        (
            "training_memory",
            "working memory at n = 65,536, MB a thread",
            "≤ 128",
            "megabytes_a_thread",
        ),
    ):
        cells = (f"{results[part][t][0][key]:.1f}" if t in results.get(part, {}) else "–" for t in ("1", "2"))
        yield f"| {name} | {aim} | " + " | ".join(cells) + " |"
    yield "\n| d | n | heads | | torch ms | torch GFLOP/s | adaptive GFLOP/s | adaptive ÷ torch | plain ÷ torch |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in found.get("1", []):
        yield (
            f"| {row['d']} | {row['n']} | {row['heads']} | {'causal' if row['causal'] else 'full'} "
            f"| {row['torch_ms']:.1f} | {row['torch_gflops']:.0f} | {row['adaptive_gflops']:.0f} "
            f"| {row['adaptive_ratio']:.2f} | {row['plain_ratio']:.2f} |"
        )


def _machine(results: dict[str, Any], part: str) -> str:
    """Say on what, and when, a part was measured."""
    one = results["machines"][part]
    level = one["instruction_set"].upper().replace("AVX512", "AVX-512")
    family = f" (processor family {one['family']})" if one.get("family") else ""
    return f"{one['cores']} cores of an {one['cpu']}{family}, {level}, torch {one['torch']}, {one['date']}."


def _spread(rows: list[dict[str, Any]], key: str) -> str:
    if not rows:
        return "–"
    return f"{_geometric(rows, key):.2f} ({min(r[key] for r in rows):.2f}–{max(r[key] for r in rows):.2f})"


def _has(results: dict[str, Any], threads: str) -> bool:
    return all(
        threads in results.get(part, {}) for part in ("prefill", "decode", "entmax", "growth", "memory", "levels")
    )


def met(results: dict[str, Any], threads: str) -> dict[str, str]:
    """Say of each aim, by the first word of its row, whether it is met, on the numbers before they are rounded."""
    rows = {part: results[part][threads] for part in ("prefill", "decode", "entmax", "memory", "growth")}
    adaptive = [row["adaptive_ratio"] for row in rows["prefill"]]
    found = {
        "adaptive": _geometric(rows["prefill"], "adaptive_ratio") <= 0.95 and max(adaptive) <= 1.10,
        "plain": _geometric(rows["prefill"], "statistics_ratio") <= 0.9,
        "decode": all(row["ratio"] <= 0.6 for row in rows["decode"]),
        "1.5-entmax,": rows["entmax"][0]["times_faster"] >= 5,
        "working": rows["memory"][0]["megabytes_a_thread"] <= 64,
    }
    return {name: "yes" if reached else "no" for name, reached in found.items()} | {"time": _growth(rows["growth"])}


def _growth(rows: list[dict[str, Any]]) -> str:
    """Yes by the medians; no where every process says so; between them the measurement does not tell."""
    if all(row["native"] <= row["torch"] for row in rows):
        return "yes"
    return "no" if any(min(row["ratios"]) > 1.0 for row in rows) else "undecided"


def _verdict(results: dict[str, Any], name: str) -> str:
    words = [met(results, t).get(name.split()[0], "") for t in ("1", "2") if _has(results, t)]
    return words[0] if len(set(words)) == 1 else ", ".join(words)


def _geometric(rows: list[dict[str, float]], key: str) -> float:
    return math.exp(statistics.fmean(math.log(row[key]) for row in rows))


def _summary(results: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    def rows(part: str, threads: str) -> list[dict[str, float]]:
        return results[part][threads]

    def spread(key: str) -> Any:
        return lambda t: _spread(rows("prefill", t), key)

    yield "adaptive ÷ torch plain, geometric mean (range)", "≤ 0.95, none above 1.10", spread("adaptive_ratio")
    yield "plain softmax with statistics ÷ torch plain", "≤ 0.9", spread("statistics_ratio")
    yield (
        "decode ÷ torch, n = 4096, 16384, 65536", "≤ 0.6 each",
        lambda t: ", ".join(f"{r['ratio']:.2f}" for r in rows("decode", t)),
    )  # fmt: skip
    yield (
        "the same by the fastest call of each", "",
        lambda t: ", ".join(f"{r['fastest_ratio']:.2f}" for r in rows("decode", t)),
    )  # fmt: skip
    yield (
        "reading the cache once ÷ torch (the limit)", "",
        lambda t: ", ".join(f"{r['read_ratio']:.2f}" for r in rows("decode", t)),
    )  # fmt: skip
    yield (
        "1.5-entmax, times faster than PyPI entmax, n = 4096",
        "≥ 5",
        lambda t: f"{rows('entmax', t)[0]['times_faster']:.1f}",
    )
    yield (
        "working memory at n = 65,536, MB a thread",
        "≤ 64",
        lambda t: f"{rows('memory', t)[0]['megabytes_a_thread']:.1f}",
    )
    yield (
        "time at n = 16384 ÷ at n = 2048, native and torch, medians of seven processes (d = 64; 128)", "native ≤ torch",
        lambda t: "; ".join(f"{r['native']:.1f} and {r['torch']:.1f}" for r in rows("growth", t)),
    )  # fmt: skip
    yield (
        "that of native ÷ that of torch, median (least to most of the seven)", "",
        lambda t: "; ".join(
            f"{statistics.median(r['ratios']):.3f} ({min(r['ratios']):.2f}–{max(r['ratios']):.2f})"
            for r in rows("growth", t)
        ),
    )  # fmt: skip
    yield (
        "GFLOP/s by instruction set (n = 1024, d = 128), sgemm, torch", "",
        lambda t: ", ".join(f"{r['name']} {r['gflops']:.0f}" for r in rows("levels", t)),
    )  # fmt: skip
