"""The study's tables, in per cent."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING

from strop.records import Record, real
from strop.report.format import fixed, mean_sd, number, p_value
from strop.report.tables import Column, Table
from strop.studies.clrs.comparison import ALL, BASELINE_ARM, ArmComparison, compare_arm, score_by_seed

if TYPE_CHECKING:
    from strop.studies.clrs.result import ClrsResult

PHRASES = {"seen": "seen in training", "between": "between those of training", "beyond": "beyond training"}
REGIONS = tuple(PHRASES)
COMPARED = (("exact", "seen"), ("exact", "beyond"), ("tokens", "beyond"))
"""What is compared with softmax, and in which region."""
WORDS = {"exact": "Exact answers", "tokens": "Right tokens"}
ROWS = {
    "softmax>adaptive": "all",
    "softmax>adaptive@prompt": "of the prompt",
    "softmax>adaptive@first": "that begin a value of the answer",
    "softmax>adaptive@later": "of later digits of the answer",
}
"""Arm → which rows it sharpens."""
PLACE_ARMS = ("softmax", "softmax>adaptive", "adaptive")
"""The arms whose digits are told apart."""
PAPER_EXCEPTIONS = ("heapsort", "mst_kruskal", "bubble_sort")
"""Where the paper does not find adaptive temperature better at larger sizes; on most others it does."""
PAPER_ARMS = {"adaptive": "better on most", "softmax>adaptive": "does not work"}
"""What the paper says in words of an arm."""


def say_paper(algorithm: str, arm: str) -> str | None:
    """What the paper says of an arm in an algorithm, at larger sizes."""
    return "not better" if arm == "adaptive" and algorithm in PAPER_EXCEPTIONS else PAPER_ARMS.get(arm)


def list_whole_arms(result: ClrsResult) -> list[str]:
    """The arms that treat all rows alike."""
    return [arm for arm in result.study.arms if "@" not in arm]


def region_table(result: ClrsResult, value: str) -> Table:
    """Every algorithm and arm: seen, between and beyond."""
    scores = {region: score_by_seed(_whole_answers(result.records, region), value) for region in REGIONS}
    rows: list[list[object]] = []
    for algorithm in result.study.algorithms:
        for arm in list_whole_arms(result):
            at = [list(scores[region].get((algorithm, arm), {}).values()) for region in REGIONS]
            if any(at):
                rows.append([algorithm, arm, *(mean_sd(values, scale=100) for values in at), len(at[-1])])
    heads = [Column(region, align="right") for region in REGIONS]
    columns = [Column("algorithm"), Column("arm"), *heads, Column("seeds")]
    return Table(columns, rows, f"{WORDS[value]}, %, by size: seen in training, between, beyond (mean ± sd over seeds)")


def comparison_table(result: ClrsResult, value: str, region: str) -> Table:
    """Every arm against softmax, beside what the paper says."""
    arms = [arm for arm in list_whole_arms(result) if arm != BASELINE_ARM]
    found = [one for arm in arms for one in result.comparisons(arm, region, value)]
    rows = [_comparison_row(one) for one in found]
    columns = [Column("arm"), Column("algorithm"), Column("difference", "points", align="right"),
               Column("interval", "95 % over seeds", align="right"), Column("p", "p, seeds"),
               Column("changed", "gained/lost questions", align="right"), Column("q", "p, questions"),
               Column("verdict", "against softmax"), Column("paper", "the paper, in words")]  # fmt: skip
    return Table(columns, rows, f"{WORDS[value]} against softmax, sizes {PHRASES[region]}")


def _comparison_row(one: ArmComparison) -> list[object]:
    between = None if one.low is None or one.high is None else f"{_points(one.low)} … {_points(one.high)}"
    paper = None if one.algorithm == ALL else say_paper(one.algorithm, one.arm)
    return [one.arm, one.algorithm, _points(one.difference), between, p_value(one.p), f"{one.gained}/{one.lost}",
            p_value(one.p_questions), one.verdict, paper]  # fmt: skip


def place_table(result: ClrsResult, region: str) -> Table:
    """How the rows of each digit attend in models trained with softmax, and what each arm gets right there."""
    arms = [arm for arm in PLACE_ARMS if arm in result.study.arms]
    places = [row for row in result.records if row["place"] is not None and row["region"] == region]
    rows: list[list[object]] = []
    for group, algorithms in group_answers(places).items():
        mine = [row for row in places if row["algorithm"] in algorithms]
        for place in sorted({int(real(row["place"])) for row in mine}):
            at = [row for row in mine if row["place"] == place]
            base = [row for row in at if row["arm"] == BASELINE_ARM]
            looks = [_mean(base, name) for name in ("entropy", "beta", "top")]
            rights = [_mean((row for row in at if row["arm"] == arm), "tokens", 100) for arm in arms]
            rows.append([group, place, *looks, *rights])
    columns = [Column("answers"), Column("place", "place in the number"), Column("entropy", "entropy, nats"),
               Column("beta", "β"), Column("top", "top weight"),
               *(Column(arm, f"{arm}: right, %", lambda v: number(v), "right") for arm in arms)]  # fmt: skip
    return Table(columns, rows, f"Rows that answer, by place of the digit, sizes {PHRASES[region]}")


def row_table(result: ClrsResult) -> Table:
    """Which rows are sharpened at inference alone, and what it costs."""
    places = [row for row in result.records if row["place"] is not None]
    ways = [(region, value) for region in ("seen", "beyond") for value in WORDS]
    rows: list[list[object]] = []
    for group, algorithms in group_answers(places).items():
        for arm in (arm for arm in result.study.arms if arm.startswith("softmax>adaptive")):
            found = [compare_arm(result.records, sorted(algorithms), arm, *way) for way in ways]
            if all(found):
                rows.append([group, ROWS[arm], *(describe_gap(one[-1]) for one in found)])
    heads = [Column(f"{region} {value}", f"{region}: {WORDS[value].lower()}", align="right") for region, value in ways]
    return Table([Column("answers"), Column("rows", "sharpened rows"), *heads],
                 rows, "Adaptive temperature at inference alone, against softmax, means over algorithms")  # fmt: skip


def describe_gap(one: ArmComparison) -> str:
    """+1.2 points [−0.3, 2.7]."""
    sign = "+" if one.difference > 0 else ""
    between = "" if one.low is None or one.high is None else f" [{_points(one.low)}, {_points(one.high)}]"
    return f"{sign}{_points(one.difference)} points{between}"


def group_answers(places: Iterable[Record]) -> dict[str, set[str]]:
    """Algorithms whose answers are numbers of three decimals, and the others."""
    deepest: dict[str, int] = {}
    for row in places:
        name = str(row["algorithm"])
        deepest[name] = max(deepest.get(name, 0), int(real(row["place"])))
    numbers = {name for name, most in deepest.items() if most >= 3}
    groups = {"numbers of three decimals": numbers, "indices and marks": set(deepest) - numbers}
    return {words: names for words, names in groups.items() if names}


def _whole_answers(records: Iterable[Record], region: str) -> list[Record]:
    return [row for row in records if row["place"] is None and row["region"] == region]


def _mean(rows: Iterable[Record], name: str, scale: float = 1.0) -> float | None:
    found = [scale * real(row[name]) for row in rows if row.get(name) is not None]
    return statistics.fmean(found) if found else None


def _points(share: float) -> str:
    return fixed(100 * share)
