"""The board as a figure, from plain numbers: nothing here knows a model or a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from strop.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
