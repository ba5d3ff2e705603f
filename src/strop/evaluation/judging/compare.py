"""Two models' scores of the same documents, side by side: means with intervals, and paired tests.

The test flips the sign of each document's change (paired.py); where scores are 0 or 1 it is McNemar's exact test.
p-values are corrected by Holm's rule within each table.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from strop._checks import require
from strop.evaluation.judging.bench import NEEDLES, RULER
from strop.evaluation.paired import flip_p, holm, wilson_interval
from strop.evaluation.verdict import OWN
from strop.records import Record, Value, real

Pair = tuple[float, float]

MEANS = {"mean of the six tasks": RULER, "mean of the three needle tasks": NEEDLES}


def compare_cells(before: Sequence[Record], after: Sequence[Record]) -> list[Record]:
    """Return a record for every task and length."""
    rows = [
        {"task": task, "phrasing": OWN, "size": tokens, **_compare(pairs)}
        for (task, tokens), pairs in _group(before, after).items()
    ]
    return _correct(rows)


def compare_means(before: Sequence[Record], after: Sequence[Record]) -> list[Record]:
    """Return a record for each mean over RULER's tasks, at each length and at all; documents count alike."""
    groups = _group(before, after)
    lengths = list(dict.fromkeys(tokens for _, tokens in groups))
    rows: list[Record] = []
    for name, tasks in MEANS.items():
        for tokens in (*lengths, None) if len(lengths) > 1 else lengths:
            chosen = {key: pairs for key, pairs in groups.items() if key[0] in tasks and tokens in (key[1], None)}
            if {task for task, _ in chosen} == set(tasks):
                cells = list(chosen.values())
                every = [pair for cell in cells for pair in cell]
                rows.append({"task": name, "phrasing": OWN, "size": tokens, **_compare(every), **_change(cells)})
    return _correct(rows)


def _group(before: Sequence[Record], after: Sequence[Record]) -> dict[tuple[str, Value], list[Pair]]:
    keys = ("task", "tokens", "document")
    same = [[row[key] for key in keys] for row in before] == [[row[key] for key in keys] for row in after]
    require(same, "before and after must be of the same documents", "others")
    groups: dict[tuple[str, Value], list[Pair]] = {}
    for then, now in zip(before, after, strict=True):
        pair = real(then["score"]), real(now["score"])
        groups.setdefault((str(then["task"]), then["tokens"]), []).append(pair)
    return groups


def _compare(pairs: Sequence[Pair]) -> Record:
    changes = [now - then for then, now in pairs]
    found: Record = {"prompts": len(pairs)}
    for side, scores in zip(("before", "after"), zip(*pairs, strict=True), strict=True):
        low, high = _interval(scores)
        found |= {side: statistics.fmean(scores), f"{side}_low": low, f"{side}_high": high}
    gains, losses = (sum(sign * change > 0 for change in changes) for sign in (1, -1))
    return {**found, "gains": gains, "losses": losses, "p": flip_p(changes)}


def _interval(scores: Sequence[float]) -> tuple[float, float]:
    """Wilson's interval, which for shares of words is on the safe side; for other scores mean ± 1.96 errors."""
    if all(0 <= score <= 1 for score in scores):
        return wilson_interval(sum(scores), len(scores))
    half = 1.959964 * statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
    return statistics.fmean(scores) - half, statistics.fmean(scores) + half


def _change(cells: Sequence[Sequence[Pair]]) -> Record:
    """The mean change over cells with its 95 % interval."""
    changes = [[now - then for then, now in pairs] for pairs in cells]
    mean = statistics.fmean(statistics.fmean(one) for one in changes)
    spread = sum(statistics.variance(one) / len(one) if len(one) > 1 else 0.0 for one in changes) ** 0.5 / len(cells)
    return {"change": mean, "change_low": mean - 1.959964 * spread, "change_high": mean + 1.959964 * spread}


def _correct(rows: list[Record]) -> list[Record]:
    return [{**row, "p_holm": p} for row, p in zip(rows, holm([real(row["p"]) for row in rows]), strict=True)]
