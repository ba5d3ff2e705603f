"""An arm against softmax on the same questions and, where both are trained, from the same initial weights.

difference  mean over seeds of the arm's share minus softmax's, each a mean over the sizes of a region
interval    95 %, Student's t over seeds: what another seed would give. Three seeds make it wide
p           two-sided paired t-test over seeds (None where t is undefined)
gained, lost   questions that only the arm, or only softmax, answers exactly
p_questions    McNemar's exact test of gained against lost: what other questions would give these same models
Both p are corrected by Holm over the algorithms of an arm.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from strop.evaluation.paired import holm, mcnemar_p
from strop.records import Record, real, whole
from strop.studies.significance import paired_p

BASELINE_ARM = "softmax"
ALL = "all algorithms"
ALPHA = 0.05


@dataclass(frozen=True)
class ArmComparison:
    """One arm against softmax, in one algorithm or the mean of all."""

    algorithm: str
    arm: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    gained: int
    lost: int
    p_questions: float | None

    @property
    def verdict(self) -> str:
        """better or worse where the corrected p over seeds is below 0.05, else –."""
        return self._judge(self.p, self.difference)

    @property
    def verdict_on_questions(self) -> str:
        """The same by the corrected p over questions: of these models alone."""
        return self._judge(self.p_questions, self.gained - self.lost)

    def _judge(self, p: float | None, gap: float) -> str:
        return "–" if p is None or p >= ALPHA else "better" if gap > 0 else "worse"


Scores = Mapping[tuple[str, str], Mapping[int, float]]
"""(algorithm, arm) → seed → share."""


def compare_arm(
    records: Sequence[Record], algorithms: Sequence[str], arm: str, region: str, value: str
) -> list[ArmComparison]:
    """Every algorithm that both have seeds of, then the mean of them; corrected p-values. None without softmax."""
    there = [row for row in records if row["place"] is None and row["region"] == region]
    scores = score_by_seed(there, value)
    shared = [name for name in algorithms if _seeds(scores, name, arm) & _seeds(scores, name, BASELINE_ARM)]
    found = [_compare(there, scores, algorithm, arm) for algorithm in shared]
    seeds, questions = _correct([one.p for one in found]), _correct([one.p_questions for one in found])
    found = [replace(one, p=p, p_questions=q) for one, p, q in zip(found, seeds, questions, strict=True)]
    return [*found, _compare_mean(scores, found, arm)] if len(found) > 1 else found


def score_by_seed(rows: Sequence[Record], value: str) -> dict[tuple[str, str], dict[int, float]]:
    """Means over sizes."""
    found: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in rows:
        cell = found.setdefault((str(row["algorithm"]), str(row["arm"])), {})
        cell.setdefault(whole(row["seed"]), []).append(real(row[value]))
    return {key: {s: statistics.fmean(v) for s, v in sorted(cell.items())} for key, cell in found.items()}


def _seeds(scores: Scores, algorithm: str, arm: str) -> set[int]:
    return set(scores.get((algorithm, arm), ()))


def _compare(rows: Sequence[Record], scores: Scores, algorithm: str, arm: str) -> ArmComparison:
    base, mine = scores[algorithm, BASELINE_ARM], scores[algorithm, arm]
    both = [seed for seed in mine if seed in base]
    gaps = [mine[seed] - base[seed] for seed in both]
    low, high = seed_interval(gaps)
    before, after = _rights(rows, algorithm, BASELINE_ARM, both), _rights(rows, algorithm, arm, both)
    pairs = list(zip(before, after, strict=True))
    gained, lost = sum(b < a for b, a in pairs), sum(b > a for b, a in pairs)
    p = paired_p([mine[s] for s in both], [base[s] for s in both])
    return ArmComparison(algorithm, arm, statistics.fmean(gaps), low, high, p, gained, lost, mcnemar_p(before, after))


def _compare_mean(scores: Scores, found: Sequence[ArmComparison], arm: str) -> ArmComparison:
    """The mean over algorithms, one number a seed."""

    def mean(name: str) -> list[float]:
        cells = [scores[one.algorithm, name] for one in found]
        shared = sorted(set.intersection(*(set(cell) for cell in cells)))
        return [statistics.fmean(cell[seed] for cell in cells) for seed in shared]

    mine, base = mean(arm), mean(BASELINE_ARM)
    gaps = [a - b for a, b in zip(mine, base, strict=False)]
    gained, lost = sum(one.gained for one in found), sum(one.lost for one in found)
    low, high = seed_interval(gaps)
    return ArmComparison(ALL, arm, statistics.fmean(gaps), low, high, paired_p(mine, base), gained, lost, None)


def _rights(rows: Sequence[Record], algorithm: str, arm: str, seeds: Sequence[int]) -> list[bool]:
    """Every question's mark, in the order of seeds and sizes."""
    mine = [row for row in rows if (row["algorithm"], row["arm"]) == (algorithm, arm) and row["seed"] in seeds]
    mine.sort(key=lambda row: (whole(row["seed"]), whole(row["n"])))
    return [mark == "1" for row in mine for mark in str(row["rights"])[1:]]


def seed_interval(gaps: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """95 % by Student's t; none for one seed."""
    if len(gaps) < 2:
        return None, None
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    mean, half = statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
    half *= float(stdtrit(len(gaps) - 1, 0.975))
    return mean - half, mean + half


def _correct(found: Sequence[float | None]) -> list[float | None]:
    """Holm over those that are there."""
    there = iter(holm([p for p in found if p is not None]))
    return [None if p is None else next(there) for p in found]
