"""Figures of the max-retrieval study, from plain numbers: nothing here knows a model or a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strop.report import figures
from strop.sharpness import best_top_weight, dispersion_bounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curves = Mapping[str, Sequence[float]]


def draw_accuracy(
    sizes: Sequence[int], panels: Mapping[str, Curves], published: Curves, published_sizes: Sequence[int]
) -> Figure:
    """A panel for each group of models: accuracy in per cent against size by rule, the paper's as crosses."""
    with figures.style():
        figure, axes = figures.new(3.4 * len(panels) + 1.6, 3.7, columns=len(panels), sharey=True, squeeze=False)
        for axis, (title, curves) in zip(axes[0], panels.items(), strict=True):
            for i, (name, values) in enumerate(curves.items()):
                axis.plot(sizes, values, "o-", color=figures.colour(i), label=name, markersize=3.5, linewidth=1.6)
            for marker, (name, values) in zip("x+", published.items(), strict=False):
                axis.plot(published_sizes, values, marker, color=figures.ink("ink"), label=f"paper, {name}", zorder=5)
            figures.sizes_axis(axis, list(sizes))
            axis.tick_params(axis="x", rotation=45)
            axis.set_title(title)
            axis.set_ylim(0, 102)
        axes[0][0].set_ylabel("accuracy, %")
        axes[0][-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=9)
    return figure


def draw_strips(weights: Mapping[str, Mapping[int, Any]]) -> Figure:
    """Figure 2: a row of heat maps for each rule, a column for each size; arrays [sets, items], the largest last."""
    names, sizes = list(weights), list(next(iter(weights.values())))
    with figures.style():
        figure, axes = figures.new(
            1.05 * len(sizes) + 1.2, 2.0 * len(names) + 0.5, rows=len(names), columns=len(sizes), squeeze=False
        )
        for row, name in enumerate(names):
            for column, size in enumerate(sizes):
                axis = axes[row][column]
                image = axis.imshow(weights[name][size], vmin=0, vmax=1, cmap=figures.SEQUENTIAL, aspect="auto",
                                    interpolation="nearest")  # fmt: skip
                axis.set(xticks=[], yticks=[])
                axis.grid(visible=False)
                if row == 0:
                    axis.set_title(f"n = {size:,}", fontsize=9, loc="center", fontweight="normal")
            axes[row][0].set_ylabel(f"{name}\n32 sets", fontsize=9)
        figure.colorbar(image, ax=axes, fraction=0.015, pad=0.01, label="weight")
        figure.supxlabel("the 16 items with the largest values, the largest at the right", fontsize=9)
    return figure


def draw_dispersion(
    sizes: Sequence[int], entropy: Curves, top: Curves, spread: Sequence[float], slope: float
) -> Figure:
    """Entropy and top weight against size, with Lemma 2.1's envelope from the measured spread and the slope law."""
    import numpy as np

    n = np.asarray(sizes, dtype=float)
    with figures.style():
        figure, (left, right) = figures.new(9.6, 3.7, columns=2)
        for i, (name, values) in enumerate(entropy.items()):
            left.plot(sizes, values, "o-", color=figures.colour(i), label=name, markersize=3.5)
            right.plot(sizes, top[name], "o-", color=figures.colour(i), label=name, markersize=3.5)
        left.plot(sizes, np.log(n), ":", color=figures.ink("muted"), label="log n, all equal")
        left.plot(
            sizes, np.maximum(0, 1 + np.log(n / slope)), "--", color=figures.ink("ink"), label="1 + log(n / slope)"
        )
        envelope = [
            (min(1.0, float(high)), float(low), float(best_top_weight(count, delta)))
            for count, delta in zip(sizes, spread, strict=True)
            for low, high in [dispersion_bounds(count, delta)]
        ]
        high, low, best = zip(*envelope, strict=True)
        floor = 1e-6
        right.fill_between(sizes, np.maximum(low, floor), high, color=figures.ink("muted"), alpha=0.12, lw=0,
                           label="Lemma 2.1, measured spread")  # fmt: skip
        right.plot(sizes, 1 / n, ":", color=figures.ink("muted"), label="1 / n, all equal")
        right.plot(sizes, best, "-.", color=figures.ink("muted"), linewidth=1, label="best case at that spread")
        right.plot(sizes, slope / (slope + n), "--", color=figures.ink("ink"), label="slope / (slope + n)")
        right.set(yscale="log", ylim=(3e-5, 1.6))
        for axis, title in ((left, "Entropy, nats"), (right, "Top weight")):
            figures.sizes_axis(axis, list(sizes))
            axis.tick_params(axis="x", rotation=45)
            axis.set_title(title)
            axis.legend(fontsize=8)
    return figure


def draw_fits(
    entropy: Sequence[float], beta: Sequence[float], curves: Curves, at: Sequence[float], end: float
) -> Figure:
    """The paper's recipe on our data: best β of each missed set against its entropy, with fitted polynomials."""
    with figures.style():
        figure, axis = figures.new(7, 3.8)
        axis.plot(
            entropy,
            beta,
            ".",
            color=figures.colour(7),
            alpha=0.35,
            markersize=4,
            label="sets that hard attention misses",
        )
        for i, (name, values) in enumerate(curves.items()):
            axis.plot(at, values, color=figures.colour(i), label=name)
        axis.axvspan(0, end, color=figures.ink("muted"), alpha=0.1, lw=0)
        axis.text(end, 0.1, " entropies seen in training end here", fontsize=8, color=figures.ink("muted"))
        axis.axhline(1, color=figures.ink("muted"), linewidth=0.8)
        axis.set(xlabel="entropy H of softmax, nats", ylabel="inverse temperature β", ylim=(0, 5), xlim=(0, max(at)))
        axis.legend(fontsize=8, loc="upper right")
    return figure


def draw_order(
    sizes: Sequence[int], measured: Curves, simulated: Curves, offsets: Mapping[str, Sequence[Sequence[float]]]
) -> Figure:
    """Left: how often the top logit is the maximal item. Right: class offsets of every model, in units of the value."""
    with figures.style():
        figure, (left, right) = figures.new(9.6, 3.7, columns=2)
        for i, (name, values) in enumerate(measured.items()):
            left.plot(sizes, values, "o", color=figures.colour(i), label=name, markersize=4.5)
            left.plot(sizes, simulated[name], "-", color=figures.colour(i), linewidth=1.3)
        left.plot([], [], "-", color=figures.ink("muted"), linewidth=1.3, label="lines: from ten curves a model")
        figures.sizes_axis(left, list(sizes))
        left.tick_params(axis="x", rotation=45)
        left.set(ylim=(0, 102), ylabel="% of sets")
        left.set_title("Top logit is the true maximum")
        left.legend(fontsize=8)
        for i, models in enumerate(offsets.values()):
            for seed, values in enumerate(models):
                x = [i + (seed - len(models) / 2) * 0.07] * len(values)
                right.plot(x, [1000 * v for v in values], ".", color=figures.colour(i), markersize=4)
        right.set_xticks(range(len(offsets)), list(offsets), fontsize=8)
        right.set_ylabel("offset, thousandths of the value")
        right.set_title("Class offsets, one column a seed")
    return figure


def draw_growth(sizes: Sequence[int], betas: Curves, hindsight: Sequence[float]) -> Figure:
    """How β grows with the size under each rule, beside the best single β with hindsight."""
    with figures.style():
        figure, axis = figures.new(8.6, 3.6)
        for i, (name, values) in enumerate(betas.items()):
            axis.plot(sizes, values, "o-", color=figures.colour(i), label=name, markersize=3.5, linewidth=1.6)
        axis.plot(sizes, hindsight, "x", color=figures.ink("ink"), label="best single β, hindsight", zorder=5)
        axis.set_yscale("log", base=2)
        figures.sizes_axis(axis, list(sizes))
        axis.set_ylabel("mean β")
        axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure
