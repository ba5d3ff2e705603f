"""Curves against size, a panel for each task: from plain numbers."""

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
