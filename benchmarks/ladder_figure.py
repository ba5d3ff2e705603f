"""The picture of benchmarks/ladder.py: exact answers against the number of pairs, a line a rung, 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder_table import UNTOUCHED, Rungs

from strop._checks import require
from strop.evaluation.paired import wilson_interval
from strop.report import figures

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "ladder.png"
KINDS = {"similar": "similar keys", "nouns": "common nouns"}


def draw_ladder(kept: Mapping[str, Rungs], names: Sequence[str], learned: tuple[int, int], path: Path = FIGURE) -> None:
    """Draw a row of panels for each model; `learned` are the sizes that calibration saw."""
    unknown = [name for name in names if not any(name in rungs for rungs in kept.values())]
    require(not unknown, "rungs must have been measured", ", ".join(unknown))
    with figures.style():
        figure, grid = figures.new(8.6, 3.1 * len(kept), len(kept), len(KINDS), sharey=True, squeeze=False)
        for line, (model, rungs) in zip(grid, kept.items(), strict=True):
            for axes, (kind, title) in zip(line, KINDS.items(), strict=True):
                axes.axvspan(*learned, color=figures.colour(7), alpha=0.15, lw=0, label="sizes that calibration saw")
                sizes = set[int]()
                for i, name in enumerate([UNTOUCHED, *names]):
                    sizes |= _draw_line(axes, rungs.get(name, {}), kind, name, i)
                figures.sizes_axis(axes, sorted(sizes | set(learned)), "pairs, n")
                axes.set_title(f"{model}, {title}")
                axes.set_ylim(-3, 103)
            line[0].set_ylabel("exact answers, %")
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        figures.png(figure, path)


def _draw_line(axes: Any, found: Mapping[str, Any], kind: str, name: str, place: int) -> set[int]:
    """One rung; return the sizes that it was measured at."""
    cells = {int(cell.split()[1]): one["right"] for cell, one in found.items() if cell.startswith(kind)}
    sizes = sorted(cells)
    shown = [100 * cells[n].count("1") / len(cells[n]) for n in sizes]
    ends = [wilson_interval(cells[n].count("1"), len(cells[n])) for n in sizes]
    error = [[abs(value - 100 * end[side]) for value, end in zip(shown, ends, strict=True)] for side in (0, 1)]
    colour = figures.colour(7 if name == UNTOUCHED else place - 1)
    axes.errorbar(sizes, shown, error, fmt="o-", capsize=2, color=colour, label=name)
    return set(sizes)
