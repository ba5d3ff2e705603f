"""Records of the study → the accuracies, tests and claims that its tables and its report are made of.

p-values are two-sided paired t-tests over seeds, on the same weights and the same sets. "Hindsight" is the constant β
(or hard attention) with the best mean accuracy at that very size: what no rule that has not seen the size can
promise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from strop.evaluate.rules import TRAINED_SIZE, Fitted, rules
from strop.experiments.reproduce_settings import PUBLISHED, SETTINGS, SIZES
from strop.records import Record

RECOMMENDED = "train entropy"
"""Best mean accuracy up to 64 items over the default groups (`validation_table`); by least regret it is "1 + log"."""
HINDSIGHT = "best single β, hindsight"
NOT_MEASURED = "no such size was measured"


@dataclass
class Group:
    """One setting and kind of weights: by_rule[rule][n] and grid[rule][n] are accuracies in the order of the seeds."""

    setting: str
    weights: str
    by_rule: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    grid: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    beta: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    statistics: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    survey: list[Record] = field(default_factory=list)
    fit: Record = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How tables call this group."""
        return self.setting if self.weights == "last" else f"{self.setting}, weights averaged"

    @property
    def sizes(self) -> list[int]:
        """The sizes evaluated, in order."""
        return sorted(self.by_rule["softmax"])

    @property
    def trained(self) -> int:
        """The largest size in training."""
        return int(str(self.fit.get("trained", TRAINED_SIZE)))

    @property
    def seeds(self) -> int:
        """How many models."""
        return len(self.by_rule["softmax"][self.sizes[0]])

    def mean(self, rule: str, n: int) -> float:
        """Mean accuracy over seeds."""
        values = self.by_rule[rule][n]
        return sum(values) / len(values)

    def surveyed(self, what: str) -> list[float]:
        """One number of the survey for each seed (or each seed and class)."""
        return [float(str(row["value"])) for row in self.survey if row["what"] == what]


def groups(records: Iterable[Record]) -> list[Group]:
    """Sort records into groups, seeds in order, and add the hindsight row."""
    found: dict[tuple[str, str], Group] = {}
    for row in sorted(records, key=lambda r: int(str(r.get("seed", -1)))):
        key = str(row["setting"]), str(row["weights"])
        _put(found.setdefault(key, Group(*key)), row)
    for group in found.values():
        if group.by_rule:
            group.by_rule[HINDSIGHT] = {n: best_constant(group, n)[1] for n in group.sizes}
    order = {name: i for i, name in enumerate(SETTINGS)}
    return sorted(found.values(), key=lambda g: (order[g.setting], g.weights != "last"))


def _put(group: Group, row: Record) -> None:
    if row.get("what") == "fit":
        group.fit = row
    elif "what" in row:
        group.survey.append(row)
    elif "statistic" in row:
        _append(group.statistics, str(row["statistic"]), row, "value")
    else:
        _append(group.grid if row["grid"] else group.by_rule, str(row["rule"]), row, "accuracy")
        if row["beta"] is not None:
            _append(group.beta, str(row["rule"]), row, "beta")


def _append(where: dict[str, dict[int, list[float]]], name: str, row: Record, value: str) -> None:
    where.setdefault(name, {}).setdefault(int(str(row["n"])), []).append(float(str(row[value])))


def best_constant(group: Group, n: int) -> tuple[str, list[float]]:
    """The constant β, or hard attention, with the best mean accuracy at this size, and its accuracies."""
    candidates = {**{name: at[n] for name, at in group.grid.items()}, "hard": group.by_rule["hard"][n]}
    name = max(candidates, key=lambda c: sum(candidates[c]))
    return name, candidates[name]


def paired_p(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Two-sided paired t-test over seeds; 1 when no pair differs, None where t is undefined.

    That is for fewer than two seeds, and where all differ by the same: two seeds that miss one set each prove nothing.
    """
    gaps = [x - y for x, y in zip(a, b, strict=True)]
    if not any(gaps):
        return 1.0 if len(gaps) > 1 else None
    if max(gaps) - min(gaps) < 1e-9:
        return None
    mean, deviation = statistics.fmean(gaps), statistics.stdev(gaps)
    from scipy.special import stdtr  # type: ignore[import-untyped]

    return float(2 * stdtr(len(gaps) - 1, -abs(mean) / (deviation / math.sqrt(len(gaps)))))


def distance(group: Group, rule: str = "softmax") -> float | None:
    """Mean absolute difference from the published row in points; None unless all its sizes were evaluated."""
    if not set(SIZES) <= set(group.sizes):
        return None
    gaps = [abs(100 * group.mean(rule, n) - p) for n, p in zip(SIZES, PUBLISHED[rule], strict=True)]
    return math.fsum(gaps) / len(gaps)


def validation(group: Group) -> dict[str, dict[int, float]]:
    """Mean accuracy over seeds of every rule that needs no fit on these sizes, at the validation sizes."""
    at: dict[str, dict[int, list[float]]] = {}
    for row in group.survey:
        if row["what"] == "validation" and not row["grid"]:
            _append(at, str(row["rule"]), row, "accuracy")
    names = (*rules(Fitted(train_entropy=0.0)), "hard")
    return {name: {n: statistics.fmean(v) for n, v in at[name].items()} for name in names if name in at}


def regrets(found: Sequence[Group]) -> dict[str, float]:
    """For each rule the most that it loses, in any group and at any validation size, against the best rule there."""
    tables = [validation(group) for group in found]
    sizes = tables[0]["softmax"]
    return {
        rule: max(max(t[r][n] for r in t) - t[rule][n] for t in tables for n in sizes)
        for rule in tables[0]
        if all(rule in t for t in tables)
    }


@dataclass(frozen=True)
class Claim:
    """A sentence that the study must show, whether it does, and the numbers."""

    text: str
    holds: bool
    evidence: str


def claims(found: Sequence[Group]) -> list[Claim]:
    """What the study set out to show, group by group, judged by its numbers alone."""
    out = []
    for group in found:
        if not group.by_rule:
            continue
        out += [_adaptive_helps(group), _never_worse(group), _better_from(group), _near_hindsight(group)]
        if group.setting == "nearest" and group.weights == "last" and (gap := distance(group)) is not None:
            out.insert(0, Claim("nearest: within 4 points of the published softmax row, on average over sizes",
                                gap <= 4, f"{gap:.2f} points"))  # fmt: skip
    return out


def _adaptive_helps(group: Group) -> Claim:
    sizes = [n for n in group.sizes if n >= 256]
    tests = {n: paired_p(group.by_rule["adaptive"][n], group.by_rule["softmax"][n]) for n in sizes}
    better = [group.mean("adaptive", n) > group.mean("softmax", n) for n in sizes]
    holds = bool(sizes) and all(better) and all(p is not None and p < 0.01 for p in tests.values())
    shown = "p at " + ", ".join(f"{n}: {'–' if p is None else f'{p:.1g}'}" for n, p in tests.items())
    text = f"{group.name}: adaptive temperature beats softmax (p < 0.01) from 256 items on"
    return Claim(text, holds, shown if sizes else NOT_MEASURED)


def _never_worse(group: Group) -> Claim:
    gaps = {n: 100 * (group.mean(RECOMMENDED, n) - group.mean("adaptive", n)) for n in group.sizes}
    least = min(gaps, key=gaps.__getitem__)
    text = f"{group.name}: the recommended rule is at least as good as adaptive temperature at every size"
    p = paired_p(group.by_rule[RECOMMENDED][least], group.by_rule["adaptive"][least])
    evidence = f"least gain {gaps[least]:+.3f} points, at {least} items (p {'–' if p is None else f'{p:.1g}'})"
    return Claim(text, gaps[least] >= 0, evidence)


def _better_from(group: Group, start: int = 2048) -> Claim:
    sizes = [n for n in group.sizes if n >= start]
    tests = {n: paired_p(group.by_rule[RECOMMENDED][n], group.by_rule["adaptive"][n]) for n in sizes}
    gains = {n: 100 * (group.mean(RECOMMENDED, n) - group.mean("adaptive", n)) for n in sizes}
    holds = bool(sizes) and all(p is not None and p < 0.01 and gains[n] > 0 for n, p in tests.items())
    shown = ", ".join(f"{n}: {gains[n]:+.1f} (p {'–' if p is None else f'{p:.1g}'})" for n, p in tests.items())
    text = f"{group.name}: and significantly better (p < 0.01) from {start} items on"
    return Claim(text, holds, shown if sizes else NOT_MEASURED)


def _near_hindsight(group: Group) -> Claim:
    gaps = {n: 100 * (group.mean(HINDSIGHT, n) - group.mean(RECOMMENDED, n)) for n in group.sizes}
    most = max(gaps, key=gaps.__getitem__)
    text = f"{group.name}: and within 1.5 points of the best single β chosen with hindsight"
    return Claim(text, gaps[most] <= 1.5, f"largest gap {gaps[most]:.2f} points, at {most} items")
