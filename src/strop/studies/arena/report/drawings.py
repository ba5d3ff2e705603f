"""Figures of the arena, from plain numbers: nothing here knows a model or a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from strop.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Lines = Mapping[str, Mapping[int, float]]
"""Name → size → value."""

PANELS_A_ROW = 3


def draw_curves(panels: Mapping[str, Lines], shown: Sequence[str], label: str, trained: Mapping[str, int]) -> Figure:
    """A panel for each task: value against size. The entrants in `shown` have colours, the others are grey."""
    rows = -(-len(panels) // PANELS_A_ROW)
    columns = min(PANELS_A_ROW, len(panels))
    with figures.style():
        figure, axes = figures.new(3.1 * columns + 1.4, 2.8 * rows, rows=rows, columns=columns, squeeze=False)
        flat = [axis for line in axes for axis in line]
        for axis, (title, lines) in zip(flat, panels.items(), strict=False):
            _draw_panel(axis, title, lines, shown, trained.get(title))
        for axis in flat[len(panels) :]:
            axis.set_visible(False)
        for line in axes:
            line[0].set_ylabel(label)
        handles = [_line(name, shown) for name in shown]
        figure.legend(handles=handles, loc="outside right center", fontsize=9)
    return figure


def _draw_panel(axis: Axes, title: str, lines: Lines, shown: Sequence[str], trained: int | None) -> None:
    for name, values in sorted(lines.items(), key=lambda item: item[0] in shown):
        style = _line(name, shown)
        axis.plot(list(values), list(values.values()), "o-", color=style.get_color(), linewidth=style.get_linewidth(),
                  markersize=2.8, zorder=3 if name in shown else 2)  # fmt: skip
    if trained is not None:
        axis.axvline(trained, color=figures.ink("muted"), linewidth=0.8, linestyle=":")
    figures.sizes_axis(axis, sorted({size for values in lines.values() for size in values}), "size, n")
    axis.tick_params(axis="x", rotation=45)
    axis.set_title(title)


def _line(name: str, shown: Sequence[str]) -> Line2D:
    from matplotlib.lines import Line2D

    if name not in shown:
        return Line2D([], [], color=figures.ink("line"), linewidth=1.0, label=name)
    return Line2D([], [], color=figures.colour(shown.index(name)), linewidth=1.8, label=name)


def draw_scores(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], label: str
) -> Figure:
    """Entrants against tasks; empty cells stay blank."""
    import math

    with figures.style():
        figure, axis = figures.new(1.0 * len(columns) + 2.6, 0.34 * len(rows) + 1.3)
        table = [[math.nan if v is None else 100 * v for v in line] for line in values]
        image = axis.imshow(table, vmin=0, vmax=100, cmap=figures.SEQUENTIAL, aspect="auto", interpolation="nearest")
        axis.set_xticks(range(len(columns)), columns, rotation=35, ha="right")
        axis.set_yticks(range(len(rows)), rows)
        axis.grid(visible=False)
        for i, line in enumerate(table):
            for j, value in enumerate(line):
                if not math.isnan(value):
                    red, green, blue, _ = image.cmap(image.norm(value))
                    dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.55
                    axis.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=8, color="w" if dark else "k")
        figure.colorbar(image, ax=axis, fraction=0.03, pad=0.02, label=label)
    return figure
