"""The probe's report: a map of layers and heads, each head's curves with the theory's envelope, a table of all.

Takes records only (summary.py writes them), so that a report can be made again from a run's folder.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib import resources
from typing import Any

from markupsafe import Markup

from strop.probing.verdict import CONVENTION, ON_SMOLLM2
from strop.records import Record, provenance, real, whole
from strop.report.format import MISSING, number, percent
from strop.report.page import Page
from strop.report.tables import Column, Table

METRICS = {
    "slope": "slope of log top weight against log n",
    "horizon": "sharpness horizon, tokens",
    "top_weight": "top weight",
    "entropy": "entropy, nats",
    "spread": "spread δ",
    "first_weight": "weight on the first token",
    "recent_weight": "weight on the last 16 tokens",
    "class": "class",
}
"""What the map can be coloured by."""

CURVES = ("top_weight", "entropy", "spread", "first_weight", "recent_weight", "n_keys")
SHARES = ("top_weight", "first_weight", "recent_weight", "position")

HOW_TO_READ = """
Every number is an average over the last eighth of the text at each length, where nearly the whole context is
visible. Weights are those of softmax, whatever rule the model runs with.

**Slope** says how the largest weight changes as the context grows: 0 means that it stays, −1 that it falls as
1/n, which is what Lemma 2.1 of arXiv 2410.01104 says must happen in the end to logits of bounded spread.
**Horizon** is the context length beyond which the head cannot put half its weight on any token, however it
tries, as long as its logits are no further apart than its spread δ: n = 1 + exp δ, with δ the mean over rows.
**Horizon, widest row** takes the largest δ of any row instead: how far the head could reach at its best moment. A
head within its horizon can be sharp, which does not mean that it is. The bound from the weight matrices
(Proposition 3.1) holds for every text, and is far looser.

Classes, at the longest length and in this order: **sink**, half or more of the weight on the first token;
**local**, half or more on the last 16 tokens, or a window that hides the rest; **dispersing**, a slope of −0.25
or steeper, so that doubling the context costs at least 16 % of the top weight; **sharp**, the others.
"""


def make_probe_page(
    heads: Sequence[Record], records: Sequence[Record], said: tuple[str, str, str, str], settings: Record
) -> Page:
    """Return the report of one probe.

    `said` is the verdict, the sentence, what to do next and its command; `settings` is which model, text and lengths.
    """
    made = Page(f"How sharp is {settings['model']}?", lead=said[0], kicker="strop probe")
    made.provenance = {**settings, **provenance()}
    _facts(made, heads)
    _explain(made, *said[1:])
    _map(made, heads)
    _all(made, heads)
    reading = made.section("How to read this")
    for paragraph in HOW_TO_READ.strip().split("\n\n"):
        reading.html(_emphasised(paragraph))
    made.data("probe", {"heads": [_shown(head) for head in heads], "curves": _curves(records), "metrics": METRICS})
    made.script(_resource("probe.js"))
    made.style(_resource("probe.css"))
    return made


def pick_lines(heads: Sequence[Record], sentence: str) -> list[str]:
    """Return the three most striking lines of a probe, for a terminal."""
    n = whole(heads[0]["n"])
    steep = min(heads, key=lambda head: _sortable(head["slope"], math.inf))
    near = min(heads, key=lambda head: _sortable(head["horizon"], math.inf))
    return [
        sentence,
        f"Blunts fastest: layer {steep['layer']} head {steep['head']}, slope {number(steep['slope'])}; at {n:,} tokens "
        f"its top weight is {number(steep['top_weight'], 2)}, with {number(steep['effective_keys'])} effective keys.",
        f"Nearest horizon: layer {near['layer']} head {near['head']} cannot put half its weight on one token beyond "
        f"{number(near['horizon'])} tokens (spread {number(near['spread'])}).",
    ]


def tabulate_heads(heads: Sequence[Record]) -> Table:
    """Return all heads as a table, steepest slope first."""
    ordered = sorted(heads, key=lambda head: _sortable(head["slope"], 0.0))
    rows = [{**head, "place": f"L{head['layer']} H{head['head']}"} for head in ordered]
    columns = [
        Column("place", "head"),
        Column("class"),
        Column("slope", align="right"),
        Column("top_weight", "top weight, %", percent),
        Column("entropy", "entropy, nats"),
        Column("effective_keys", "effective keys"),
        Column("spread", "spread δ"),
        Column("position", "of theory's best, %", percent),
        Column("first_weight", "first token, %", percent),
        Column("recent_weight", "last 16, %", percent),
        Column("horizon", "horizon, tokens", align="right"),
        Column("spread_bound", "δ bound (weights)", align="right"),
        Column("blunt_from", "below ½ from n", align="right"),
    ]
    return Table.of(rows, columns)


def _explain(made: Page, sentence: str, advice: str, command: str) -> None:
    section = made.section("Is bluntness a problem?")
    section.text(f"{sentence}\n\n{CONVENTION}\n\n{ON_SMOLLM2}")
    section.text(f"Next. {advice}")
    section.code(command)


def _facts(made: Page, heads: Sequence[Record]) -> None:
    count = Counter(str(head["class"]) for head in heads)
    n = whole(heads[0]["n"])
    cannot = sum(_sortable(head["horizon"], math.inf) < n for head in heads)
    made.fact(str(count["dispersing"]), f"of {len(heads)} heads go blunt as the context grows")
    made.fact(str(count["sharp"]), "keep their sharpness")
    made.fact(str(count["local"]), "look at their neighbours")
    made.fact(str(count["sink"]), "rest on the first token")
    made.fact(str(cannot), f"have their horizon before {n:,} tokens")


def _map(made: Page, heads: Sequence[Record]) -> None:
    section = made.section("The map")
    section.text(
        "A row for each layer, a cell for each head. Choose a head to see how it changes as the context grows."
    )
    options = Markup("").join(Markup('<option value="{}">{}</option>').format(*pair) for pair in METRICS.items())
    section.html(
        Markup('<p class="choose"><label for="metric">Colour by</label> <select id="metric">{}</select></p>').format(
            options
        )
    )
    section.html('<div id="legend" aria-hidden="true"></div>')
    cells = '<div class="mapscroll"><div id="map" role="group" aria-label="Layers and heads"></div></div>'
    section.html(f'<div class="split">{cells}<div id="head" aria-live="polite"></div></div>')
    names = {str(head["layer"]): str(head["name"]) for head in heads}
    listed = Markup("").join(Markup("<li>{} = <code>{}</code></li>").format(*pair) for pair in names.items())
    section.html(Markup("<details><summary>Names of the layers</summary><ul>{}</ul></details>").format(listed))


def _all(made: Page, heads: Sequence[Record]) -> None:
    section = made.section("Every head")
    section.text(
        "At the longest length. Sort by any column; filter by words such as `dispersing` or `L12`; choose a row."
    )
    section.table(tabulate_heads(heads), sortable=True, filterable=True)


def _shown(head: Record) -> dict[str, Any]:
    """One head for the page's script: raw values for colours, written ones for words."""
    text = {key: _share(head[key]) if key in SHARES else number(head[key]) for key in TOLD}
    raw = {key: head[key] for key in METRICS}
    spread = real(head["spread"])
    raw["horizon"] = math.log10(2.0) if spread == 0 else spread / math.log(10)  # log₁₀ of it, which is never infinite
    return {"layer": head["layer"], "head": head["head"], "name": head["name"], "value": raw, "text": text}


def _share(value: object) -> str:
    return MISSING if math.isnan(_sortable(value, math.nan)) else f"{percent(_sortable(value, 0.0))} %"


TOLD = (
    "slope", "horizon", "top_weight", "entropy", "effective_keys", "spread", "spread_max", "spread_bound",
    "first_weight", "recent_weight", "position", "class", "horizon_best", "horizon_bound", "blunt_from",
    "entropy_slope",
)  # fmt: skip


def _curves(records: Sequence[Record]) -> dict[str, Any]:
    """Curves by head: {"layer.head": {"n": […], "top_weight": […], …}}."""
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for record in sorted(records, key=lambda r: whole(r["n"])):
        curve = found[f"{record['layer']}.{record['head']}"]
        for key in ("n", *CURVES):
            value = record[key]
            curve[key].append(float(f"{value:.5g}") if isinstance(value, float) and math.isfinite(value) else value)
    return {place: dict(curve) for place, curve in found.items()}


def _emphasised(paragraph: str) -> Markup:
    parts = paragraph.split("**")
    inside = [Markup("<b>{}</b>").format(part) if i % 2 else part for i, part in enumerate(parts)]
    return Markup("<p>{}</p>").format(Markup("").join(Markup("{}").format(part) for part in inside))


def _sortable(value: object, missing: float) -> float:
    return value if isinstance(value, int | float) and not math.isnan(value) else missing


def _resource(name: str) -> str:
    return resources.files("strop.probing").joinpath(name).read_text(encoding="utf-8")
