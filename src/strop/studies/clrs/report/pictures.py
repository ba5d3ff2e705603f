"""The study's figures: exact answers and right tokens against size, a panel for each algorithm."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from strop.records import real, whole
from strop.report.curves import draw_curves
from strop.studies.clrs.report.tables import list_whole_arms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from strop.studies.clrs.result import ClrsResult


def draw_clrs(result: ClrsResult) -> dict[str, Figure]:
    """Every figure by its file name; none where nothing is finished."""
    if not result.records:
        return {}
    study = result.study
    trained = {algorithm: max(study.train_sizes(algorithm)) for algorithm in study.algorithms}
    labels = {"exact": "exact answers, %", "tokens": "right tokens, %"}
    return {
        value: draw_curves(_panels(result, value), list_whole_arms(result), label, trained)
        for value, label in labels.items()
    }


def _panels(result: ClrsResult, value: str) -> dict[str, dict[str, dict[int, float]]]:
    arms = list_whole_arms(result)
    found: dict[str, dict[str, dict[int, list[float]]]] = {}
    for row in result.records:
        if row["place"] is None and row["arm"] in arms:
            line = found.setdefault(str(row["algorithm"]), {}).setdefault(str(row["arm"]), {})
            line.setdefault(whole(row["n"]), []).append(100 * real(row[value]))
    return {
        algorithm: {arm: {n: statistics.fmean(line[n]) for n in sorted(line)} for arm, line in lines.items()}
        for algorithm, lines in found.items()
    }
