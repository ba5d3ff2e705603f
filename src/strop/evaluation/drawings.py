"""Figures of a comparison: answers by size before and after, and what was done to every head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strop.evaluation.verdict import name_prompts
from strop.records import Record, real
from strop.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_A_ROW = 3
DODGE = 0.07
"""How far before and after stand from their tick, so that neither hides the other's interval."""


def draw_answers(answers: Sequence[Record], what: str = "exact answers, %") -> str:
    """A panel for each task and phrasing: answers, or other scores, before and after at every size."""
    panels: dict[str, list[Record]] = {}
    for row in answers:
        panels.setdefault(name_prompts(row), []).append(row)
    columns = min(PANELS_A_ROW, len(panels))
    rows = -(-len(panels) // columns)
    with figures.style():
        fig, axes = figures.new(2.5 * columns + 1.0, 2.3 * rows + 0.5, rows, columns, sharey=True, squeeze=False)
        flat = [axis for line in axes for axis in line]
        for axis, (title, points) in zip(flat, panels.items(), strict=False):
            _draw_panel(axis, title, points)
        for axis in flat[len(panels) :]:
            axis.set_visible(False)
        for line in axes:
            line[0].set_ylabel(what)
        fig.legend(*flat[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
        return figures.svg(fig)


def _draw_panel(axis: Axes, title: str, points: Sequence[Record]) -> None:
    """Sizes stand side by side; prompts without a size are a place of their own, joined to none."""
    ordered = sorted(points, key=lambda row: real(row["size"]) or math.inf)
    sized = sum(bool(row["size"]) for row in ordered)
    for i, side in enumerate(("before", "after")):
        at = [place + (2 * i - 1) * DODGE for place in range(len(ordered))]
        shown = [100 * real(row[side]) for row in ordered]
        error = [[abs(100 * real(row[f"{side}_{end}"]) - value) for row, value in zip(ordered, shown, strict=True)]
                 for end in ("low", "high")]  # fmt: skip
        axis.errorbar(at, shown, error, fmt="o", color=figures.colour(i), capsize=2, label=side)
        axis.plot(at[:sized], shown[:sized], color=figures.colour(i))
    bare = "no size" if sized else "all prompts"
    axis.set_xticks(range(len(ordered)), [f"{row['size']:,}" if row["size"] else bare for row in ordered])
    axis.tick_params(axis="x", rotation=45 if len(ordered) > 5 else 0)
    axis.set_title(title)
    axis.set_xlabel("size" if sized else "")
    axis.set_xlim(-0.5, len(ordered) - 0.5)
    axis.set_ylim(-3, 103)


def draw_heads(heads: Sequence[Mapping[str, Any]], field: str, label: str) -> str:
    """log₂ of a field of every head, layers from left to right."""
    layers, width = 1 + max(row["layer"] for row in heads), 1 + max(row["head"] for row in heads)
    values = [[math.nan] * layers for _ in range(width)]
    for row in heads:
        values[row["head"]][row["layer"]] = math.log2(max(row[field], 1e-3))
    limit = max(0.1, *(abs(v) for line in values for v in line if not math.isnan(v)))
    with figures.style():
        fig, axis = figures.new(7.5, 1.4 + 0.16 * width)
        image = axis.imshow(values, cmap=figures.DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
        axis.grid(visible=False)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.yaxis.get_major_locator().set_params(integer=True)
        axis.set(xlabel="layer", ylabel="head")
        fig.colorbar(image, ax=axis, label=f"log₂ {label}")
        return figures.svg(fig)
