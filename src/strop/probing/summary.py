"""From measurements to verdicts: one record for each head, its class, and one sentence for the model.

    slope      of mean log top weight against log n over all lengths, by least squares: 0 = sharp, −1 = dispersed
    horizon    the context beyond which the head cannot put half its weight on one token, by theory from its mean
               spread at the longest length; horizon_best: from the largest spread of a row; horizon_bound: from the
               weight matrices
    blunt_from the first measured length at which the mean top weight is below one half; None if there is none

Classes, decided at the longest length in this order (thresholds are SINK, LOCAL and FALLING below):

    sink         half or more of the weight lies on the first token (or on the model's own sink key)
    local        half or more lies on the last 16 tokens, or the layer's window hides the rest
    dispersing   neither, and the slope is −0.25 or steeper: doubling the context costs 16 % of the top weight or more
    sharp        neither, and the slope is flatter than that
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from strop.records import Record, whole
from strop.sharpness import horizon

SINK = 0.5
LOCAL = 0.5
FALLING = -0.25
CLASSES = ("sharp", "dispersing", "local", "sink")


def summarise(records: Iterable[Record]) -> list[Record]:
    """Return one record for each head from those of all lengths."""
    curves: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for record in records:
        curves[whole(record["layer"]), whole(record["head"])].append(record)
    return [_head(sorted(curve, key=lambda r: _number(r, "n"))) for _, curve in sorted(curves.items())]


def _head(curve: Sequence[Record]) -> Record:
    last = curve[-1]
    limit = last["spread_bound"]
    head: Record = {name: last[name] for name in ("layer", "head", "name", "n")}
    head["class"] = "sharp"  # decided below; here for the order of columns
    head["slope"] = _slope(curve, "log_top_weight")
    head["entropy_slope"] = _slope(curve, "entropy")
    head |= {name: value for name, value in last.items() if name not in head and name not in ("step", "n_queries")}
    head["horizon"] = _horizon(_number(last, "spread"))
    head["horizon_best"] = _horizon(_number(last, "spread_max"))
    head["horizon_bound"] = None if limit is None else _horizon(float(limit))
    head["blunt_from"] = next((r["n"] for r in curve if _number(r, "top_weight") < 0.5), None)
    head["class"] = classify(head)
    return head


def classify(head: Record) -> str:
    """Return a head's class."""
    if _number(head, "first_weight") + _number(head, "null_weight") >= SINK:
        return "sink"
    windowed = _number(head, "n_keys") < 0.75 * _number(head, "n")  # a full row sees 15/16 of it on average
    if _number(head, "recent_weight") >= LOCAL or windowed:
        return "local"
    return "dispersing" if _number(head, "slope") <= FALLING else "sharp"


def write_sentence(model: str, heads: Sequence[Record]) -> str:
    """Say in one sentence what the probe means for the model."""
    count = Counter(str(head["class"]) for head in heads)
    n = int(_number(heads[0], "n"))
    falling = [head for head in heads if head["class"] == "dispersing"]
    rest = (
        f"{count['sharp']} keep their sharpness, {count['local']} look at their neighbours and {count['sink']} rest "
        "on the first token."
    )
    if all(math.isnan(_number(head, "slope")) for head in heads):
        return (
            f"{model} was measured at one length, {n:,} tokens, which says nothing about growth: {count['local']} of "
            f"its {len(heads)} heads look at their neighbours and {count['sink']} rest on the first token."
        )
    if not falling:
        return f"None of {model}'s {len(heads)} heads goes blunt up to {n:,} tokens: {rest}"
    typical = sorted(_number(head, "slope") for head in falling)[len(falling) // 2]
    blunt = sum(_number(head, "top_weight") < 0.5 for head in falling)
    cannot = sum(_number(head, "horizon") < n for head in heads)
    theory = (
        f"{cannot} cannot by theory, so small is the spread of their logits" if cannot else "by theory all still could"
    )
    return (
        f"{len(falling)} of {model}'s {len(heads)} heads go blunt as the context grows: each doubling costs them "
        f"{100 * (1 - 2**typical):.0f} % of their top weight, at {n:,} tokens {blunt} of them put less than half their "
        f"weight on any token, and {theory}; {rest}"
    )


def _slope(curve: Sequence[Record], name: str) -> float:
    """Least-squares slope against log n; NaN with fewer than two lengths."""
    points = [(math.log(_number(r, "n")), _number(r, name)) for r in curve]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    scatter = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / scatter if scatter > 0 else math.nan


def _horizon(spread: float) -> int | float:
    reach = horizon(spread)
    assert isinstance(reach, float)
    return int(reach) if reach < 2**53 else reach  # a count, as long as a float can count


def _number(record: Record, name: str) -> float:
    value = record[name]
    return math.nan if value is None else float(value)
