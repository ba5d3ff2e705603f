"""Figures of a diagnosis: causes against size, the map of heads by role, symptoms against length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from strop.diagnosing.causes import CAUSES
from strop.diagnosing.heads import ROLES
from strop.diagnosing.symptoms import SYMPTOMS
from strop.records import Record, real, whole
from strop.report import figures

PANELS_A_ROW = 3


def draw_causes(causes: Sequence[Record]) -> str:
    """A panel for each task: the share of wrong answers at each size, stacked by cause."""
    panels: dict[str, list[Record]] = {}
    for row in causes:
        panels.setdefault(str(row["task"]), []).append(row)
    columns = min(PANELS_A_ROW, len(panels))
    rows = -(-len(panels) // columns)
    shown = [cause for cause in CAUSES if any(row[cause] for row in causes)]
    with figures.style():
        fig, axes = figures.new(2.5 * columns + 1.0, 2.3 * rows + 0.5, rows, columns, sharey=True, squeeze=False)
        flat = [axis for line in axes for axis in line]
        for axis, (title, points) in zip(flat, panels.items(), strict=False):
            bottom = [0.0] * len(points)
            for cause in shown:
                height = [100 * real(row[cause]) / real(row["prompts"]) for row in points]
                colour = figures.colour(CAUSES.index(cause))
                axis.bar(range(len(points)), height, 0.7, bottom, color=colour, label=cause)
                bottom = [below + more for below, more in zip(bottom, height, strict=True)]
            axis.set_xticks(range(len(points)), [f"{row['size']:,}" for row in points])
            axis.set(title=title, xlabel="size", ylim=(0, 100), xlim=(-0.6, len(points) - 0.4))
        for axis in flat[len(panels) :]:
            axis.set_visible(False)
        for line in axes:
            line[0].set_ylabel("wrong answers, %")
        if shown:
            fig.legend(*flat[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
        return figures.svg(fig)


def draw_roles(heads: Sequence[Record]) -> str:
    """A cell for each head, layers from left to right, coloured by role."""
    from matplotlib.colors import BoundaryNorm, ListedColormap

    layers, width = (1 + max(whole(row[key]) for row in heads) for key in ("layer", "head"))
    values = [[float("nan")] * layers for _ in range(width)]
    for row in heads:
        values[whole(row["head"])][whole(row["layer"])] = float(ROLES.index(str(row["role"])))
    colours = [figures.colour(i) for i in (1, 7, 5, 3)] + [figures.ink("line")]
    with figures.style():
        fig, axis = figures.new(7.5, 1.6 + 0.16 * width)
        bounds = [i - 0.5 for i in range(len(ROLES) + 1)]
        image = axis.imshow(values, cmap=ListedColormap(colours), norm=BoundaryNorm(bounds, len(ROLES)), aspect="auto")
        axis.grid(visible=False)
        axis.set_xticks(range(0, layers, 1 + layers // 16))
        axis.set_yticks(range(0, width, 1 + width // 16))
        axis.set(xlabel="layer", ylabel="head")
        bar = fig.colorbar(image, ax=axis, ticks=range(len(ROLES)))
        bar.ax.set_yticklabels(ROLES)
        return figures.svg(fig)


def draw_symptoms(symptoms: Sequence[Record]) -> str:
    """A panel for each symptom that has a curve: its value against the prompt's length, a line for each task."""
    tasks = list(dict.fromkeys(row["task"] for row in symptoms if row["task"] is not None))
    known = [row for row in symptoms if row["value"] is not None]
    lengths = {one.name: {whole(row["tokens"]) for row in known if row["symptom"] == one.name} for one in SYMPTOMS}
    panels = [one for one in SYMPTOMS if len(lengths[one.name]) > 1] or list(SYMPTOMS[:1])
    rows = -(-len(panels) // PANELS_A_ROW)
    with figures.style():
        fig, axes = figures.new(8.5, 2.2 * rows + 0.5, rows, PANELS_A_ROW, squeeze=False)
        flat = [axis for line in axes for axis in line]
        for axis, one in zip(flat, panels, strict=False):
            for task in [*tasks, None]:
                points = [row for row in symptoms if (row["symptom"], row["task"]) == (one.name, task)]
                _draw_line(axis, sorted(points, key=lambda row: whole(row["tokens"])), tasks, task, one.share)
            axis.set(title=one.title + (", %" if one.share else ""))
            figures.sizes_axis(axis, _powers(lengths[one.name]), "tokens")
        for axis in flat[len(panels) :]:
            axis.set_visible(False)
        if tasks:
            fig.legend(*flat[0].get_legend_handles_labels(), loc="outside upper left", ncols=len(tasks))
        return figures.svg(fig)


def _powers(lengths: set[int]) -> list[int]:
    """The powers of two nearest to some lengths, from the smallest to the largest; every other one of many."""
    low, high = (round(math.log2(end)) for end in (min(lengths, default=1), max(lengths, default=1)))
    return [2**i for i in range(low, high + 1, 1 if high - low < 5 else 2)]


def _draw_line(axis: Any, points: Sequence[Record], tasks: Sequence[object], task: object, share: bool) -> None:
    told = [(row["tokens"], row["value"] if row["carriers"] is None else row["carriers"]) for row in points]
    known = [(real(n), real(value) * (100 if share else 1)) for n, value in told if value is not None]
    if known:
        colour = figures.colour(tasks.index(task)) if task in tasks else figures.ink("muted")
        axis.plot(*zip(*known, strict=True), marker="o", color=colour, label=None if task is None else str(task))
