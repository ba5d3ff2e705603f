"""What benchmarks/ladder.py has measured: kept by model, rung and cell, and shown as tables.

p is the larger of McNemar's over prompts and the sign flips over passages, then corrected by Holm over the cells of the
table that is printed. With 12 passages the second is at least 2/2¹², so a table of more than a hundred cells can show
nothing: name the rungs to be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strop.evaluation.paired import holm, mcnemar_p, sign_flip_p, wilson_interval
from strop.records import atomic_path

UNTOUCHED = "untouched"
SIGNIFICANT = 0.05
RESULTS = Path(__file__).parent / "results" / "ladder.json"

Found = dict[str, Any]
Rungs = dict[str, dict[str, Found]]


@dataclass(frozen=True)
class Results:
    """What was measured of one model: rung → cell → what was found."""

    model: str
    path: Path = RESULTS

    def read(self) -> Rungs:
        """Return everything measured so far."""
        return self._read().get(self.model, {})

    def begin(self, name: str, made: Found) -> None:
        """Keep how a rung was made; what was measured of another edge of that name is forgotten."""
        known = self.read().get(name, {})
        before = known.get("made", {})
        same = before.get("digest") == made["digest"]
        self._write(name, (known if same else {}) | {"made": (before if same else {}) | made})

    def update(self, name: str, cell: str, found: Found) -> None:
        """Keep one more measurement."""
        self._write(name, self.read().get(name, {}) | {cell: found})

    def _read(self) -> dict[str, Rungs]:
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        return {"smollm2": kept} if UNTOUCHED in kept else kept  # a file of when there was one model

    def _write(self, name: str, rung: dict[str, Found]) -> None:
        kept = self._read()
        kept.setdefault(self.model, {})[name] = rung
        with atomic_path(self.path) as temporary:
            temporary.write_text(re.sub(r"\n(?=[-\d\]])", "", json.dumps(kept, indent=0)))  # a list is one line


def print_table(kept: Rungs, names: Sequence[str], known: Sequence[str]) -> None:
    """Print accuracies with intervals, which of them differ from the untouched model's, and the change of prose."""
    rungs = {name: kept[name] for name in dict.fromkeys([UNTOUCHED, *(names or kept)]) if name in kept}
    base = kept.get(UNTOUCHED, {})
    cells = [cell for cell in known if any(cell in found for found in rungs.values())]
    corrected = _correct({
        (name, cell): _test(base[cell], found[cell])
        for name, found in rungs.items() for cell in cells if name != UNTOUCHED and cell in found and cell in base
    })  # fmt: skip
    rows = {
        cell: [_show(found.get(cell), base.get(cell), corrected.get((name, cell))) for name, found in rungs.items()]
        for cell in cells
    }
    for n, shown in (("256", "256"), ("1024", "1,024")):
        rows[f"prose, {shown} tokens, nats a token"] = [_change(found, base, n) for found in rungs.values()]
    for key, what in (
        ("best_task", "validated loss, nats"),
        ("best_drift", "drift, nats a token"),
        ("numbers", "numbers"),
    ):
        made = [found.get("made", {}).get(key, "") for found in rungs.values()]
        rows[what] = [f"{one:.4f}" if isinstance(one, float) else f"{one:,}" if one else "" for one in made]
    print("| exact answers, % (95 %) |", " | ".join(rungs), "|")
    print("|---" * (len(rungs) + 1) + "|")
    for what, row in rows.items():
        print(f"| {what} |", " | ".join(row), "|")
    print(f"\nBold: better than {UNTOUCHED}, p < {SIGNIFICANT} after Holm over {len(corrected)} cells.")


def print_comparison(kept: Rungs, one: str, other: str, known: Sequence[str]) -> None:
    """Print two rungs side by side, a cell a line: prompts that only one of them answers, and which is ahead."""
    cells = [cell for cell in known if cell in kept[one] and cell in kept[other]]
    corrected = _correct({cell: _test(kept[one][cell], kept[other][cell]) for cell in cells})
    print(f"| | {one} | {other} | only {one} | only {other} | p (Holm) | ahead |\n|---|---|---|---|---|---|---|")
    for cell in cells:
        a, b = (_right(kept[name][cell]) for name in (one, other))
        only = [sum(x and not y for x, y in zip(*pair, strict=True)) for pair in ((a, b), (b, a))]
        ahead = (one if only[0] > only[1] else other) if corrected[cell] < 0.05 else "not told apart"
        shown = [_show(kept[name][cell]) for name in (one, other)]
        print(f"| {cell} | {' | '.join(shown)} | {only[0]} | {only[1]} | {corrected[cell]:.0e} | {ahead} |")
    changes = [[_change(kept[name], kept.get(UNTOUCHED, {}), n) for name in (one, other)] for n in ("256", "1024")]
    for tokens, change in zip(("256", "1,024"), changes, strict=True):
        print(f"| prose {tokens} | {' | '.join(change)} | | | | |")


def _correct(p: Mapping[Any, float]) -> dict[Any, float]:
    return dict(zip(p, holm(list(p.values())), strict=True))


def _test(before: Found, after: Found) -> float:
    then, now = _right(before), _right(after)
    return max(mcnemar_p(then, now), sign_flip_p(then, now, after["passages"]))


def _right(found: Found) -> list[bool]:
    return [c == "1" for c in found["right"]]


def _show(found: Found | None, base: Found | None = None, p: float | None = None) -> str:
    if found is None:
        return "–"
    right = _right(found)
    low, high = wilson_interval(sum(right), len(right))
    exact, interval = f"{100 * found['exact']:.1f}", f"({100 * low:.0f}–{100 * high:.0f})"
    if base is None or p is None or p >= SIGNIFICANT:
        return f"{exact} {interval}"
    return f"**{exact}** {interval}" if found["exact"] > base["exact"] else f"worse: {exact} {interval}"


def _change(found: dict[str, Found], base: dict[str, Found], tokens: str) -> str:
    if found is base or "prose" not in found or "prose" not in base:
        return ""
    changes = [b - a for a, b in zip(base["prose"][tokens], found["prose"][tokens], strict=True)]
    mean = sum(changes) / len(changes)
    error = (sum((c - mean) ** 2 for c in changes) / (len(changes) - 1) / len(changes)) ** 0.5
    return f"{mean:+.4f} ± {error:.4f}"
