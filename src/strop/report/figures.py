"""House style of every figure, and two ways out: an SVG that follows the page's colours, and a PNG.

    with style():
        figure, axes = new(width=7, height=3.5)
        axes.plot(n, accuracy, color=colour(0), label="softmax")
    svg(figure)                      # text for Page.figure
    png(figure, "table1.png")

The SVG is deterministic: ids from a fixed salt, no date. Its ink and series colours are CSS variables with
the light values as fallback: the same text is right on a white page, on a dark page and in a plain viewer.
Series colours are close to Okabe and Ito's, which colour-blind readers can tell apart, lighter on dark pages.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from strop.records import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# CSS variable → (light, dark). Light values are unlike any other colour: svg() finds them by value.
INK = {
    "ink": ("#1c2127", "#e8eaed"),
    "muted": ("#5f6873", "#a3adb8"),
    "line": ("#d5d9de", "#3a424c"),
    "paper": ("#fefefd", "#15191e"),
}
SERIES = {
    "series-1": ("#0071b2", "#5bb3ee"),  # blue
    "series-2": ("#d55c00", "#ff9248"),  # vermilion
    "series-3": ("#009e74", "#3fd0a4"),  # green
    "series-4": ("#c26a9b", "#ee9fcb"),  # rose
    "series-5": ("#b38600", "#f0c63a"),  # ochre
    "series-6": ("#3593c0", "#93d5ff"),  # sky
    "series-7": ("#6b4fa3", "#b59bf0"),  # violet
    "series-8": ("#50565e", "#c3c9d0"),  # grey
}
PIXELS = 110  # of a page for an inch of a figure: its 9-point text is then as large as a caption
LEAST = 0.7  # of that size, on a phone: a smaller figure could not be read, a larger one scrolls
SEQUENTIAL = "cividis"  # uniform, and the same to colour-blind readers
DIVERGING = "RdBu_r"


def colour(index: int) -> str:
    """Return the colour of series `index`; after eight they begin again."""
    return list(SERIES.values())[index % len(SERIES)][0]


def ink(name: str) -> str:
    """Return the light value of an ink: "ink", "muted", "line" or "paper"."""
    return INK[name][0]


@contextmanager
def style() -> Iterator[None]:
    """Apply the house style inside the block."""
    import matplotlib

    with matplotlib.rc_context(cast(Any, _settings())):
        yield


def new(width: float = 8.0, height: float = 3.8, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure (inches) and its axes, as pyplot.subplots does, without pyplot's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **options)


def sizes_axis(axes: Axes, sizes: list[int], label: str = "items, n") -> None:
    """Make the x axis a base-2 logarithm with the given sizes as ticks (every other one of many)."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    shown = sizes if len(sizes) <= 7 else sizes[::2]
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter([f"{size:,}" for size in shown]))
    axes.set_xlabel(label)


def svg(figure: Figure) -> str:
    """Return the figure as one <svg> element whose colours follow the page."""
    text = io.StringIO()
    with style():
        figure.savefig(text, format="svg", dpi=200, transparent=True)
    width = round(figure.get_figwidth() * PIXELS)
    size = f"max-width: {width}px; min-width: {round(LEAST * width)}px"
    return _inline(text.getvalue()).replace("<svg", f'<svg style="{size}"', 1)


def png(figure: Figure, path: str | os.PathLike[str], dpi: int = 160) -> None:
    """Write the figure as a PNG on the light page colour, atomically."""
    with style(), atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=dpi, metadata={"Software": None})


def _settings() -> dict[str, Any]:
    from cycler import cycler

    return {
        "svg.hashsalt": "strop",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 9,
        "text.color": ink("ink"),
        "axes.labelcolor": ink("ink"),
        "axes.titlecolor": ink("ink"),
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.edgecolor": ink("muted"),
        "axes.facecolor": "none",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.prop_cycle": cycler(color=[light for light, _ in SERIES.values()]),
        "grid.color": ink("line"),
        "grid.linewidth": 0.7,
        "xtick.color": ink("muted"),
        "ytick.color": ink("muted"),
        "xtick.labelcolor": ink("ink"),
        "ytick.labelcolor": ink("ink"),
        "lines.linewidth": 1.8,
        "lines.markersize": 4.5,
        "image.interpolation": "nearest",
        "legend.frameon": True,
        "legend.facecolor": ink("paper"),
        "legend.edgecolor": "none",
        "legend.framealpha": 0.85,
        "figure.facecolor": ink("paper"),
        "savefig.facecolor": ink("paper"),
    }


def _inline(text: str) -> str:
    """Keep the element alone, let it take the page's size, font and colours, and make its ids its own."""
    text = text[text.index("<svg") :].strip()
    # the metadata holds the date
    text = re.sub(r"<metadata>.*?</metadata>\s*|<style .*?</style>\s*|<defs>\s*</defs>\s*", "", text, flags=re.S)
    text = re.sub(r' (?:width|height)="[^"]*pt"', "", text, count=2)
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    text = re.sub(r'<g id="[\w.]+_\d+">', "<g>", text)
    for name, (light, _) in {**INK, **SERIES}.items():
        text = text.replace(f": {light}", f": var(--{name}, {light})")
    own = "fig" + hashlib.sha256(text.encode()).hexdigest()[:8]
    return re.sub(r'( id="|"#|url\(#)(?=\w)', rf"\g<1>{own}-", text)
