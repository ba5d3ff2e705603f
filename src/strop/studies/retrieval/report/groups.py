"""Records of the study, sorted into groups of models: the accuracies that tables, claims and figures are made of.

"Hindsight" is the constant β (or hard attention) with the best mean accuracy at that very size: what no rule that has
not seen the size can promise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from strop.records import Record, real, whole
from strop.studies.retrieval.evaluation.temperature_rules import TRAINED_SIZE, Fitted, temperature_rules
from strop.studies.retrieval.settings import PUBLISHED, SETTINGS
from strop.studies.retrieval.study import PAPER_SIZES

RECOMMENDED = "train entropy"
"""Best mean accuracy up to 64 items over the default groups (`validation_table`); by least regret it is "1 + log"."""
HINDSIGHT = "best single β, hindsight"


@dataclass
class ModelGroup:
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
    def trained_size(self) -> int:
        """The largest size in training."""
        return whole(self.fit.get("trained", TRAINED_SIZE))

    @property
    def seeds(self) -> int:
        """How many models."""
        return len(self.by_rule["softmax"][self.sizes[0]])

    def mean(self, rule: str, n: int) -> float:
        """Mean accuracy over seeds."""
        return mean_of(self.by_rule[rule][n])

    def survey_values(self, what: str) -> list[float]:
        """One number of the survey for each seed (or each seed and class)."""
        return [real(row["value"]) for row in self.survey if row["what"] == what]


def sort_into_groups(records: Iterable[Record]) -> list[ModelGroup]:
    """Sort records into groups, seeds in order, and add the hindsight row."""
    found: dict[tuple[str, str], ModelGroup] = {}
    for row in sorted(records, key=lambda r: whole(r.get("seed", -1))):
        key = str(row["setting"]), str(row["weights"])
        _put(found.setdefault(key, ModelGroup(*key)), row)
    for group in found.values():
        if group.by_rule:
            group.by_rule[HINDSIGHT] = {n: best_constant(group, n)[1] for n in group.sizes}
    order = {name: i for i, name in enumerate(SETTINGS)}
    return sorted(found.values(), key=lambda g: (order[g.setting], g.weights != "last"))


def _put(group: ModelGroup, row: Record) -> None:
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
    where.setdefault(name, {}).setdefault(whole(row["n"]), []).append(real(row[value]))


def best_constant(group: ModelGroup, n: int) -> tuple[str, list[float]]:
    """The constant β, or hard attention, with the best mean accuracy at this size, and its accuracies."""
    candidates = {**{name: at[n] for name, at in group.grid.items()}, "hard": group.by_rule["hard"][n]}
    name = max(candidates, key=lambda c: sum(candidates[c]))
    return name, candidates[name]


def distance_to_paper(group: ModelGroup, rule: str = "softmax") -> float | None:
    """Mean absolute difference from the published row in points; None unless all its sizes were evaluated."""
    if not set(PAPER_SIZES) <= set(group.sizes):
        return None
    gaps = [abs(100 * group.mean(rule, n) - p) for n, p in zip(PAPER_SIZES, PUBLISHED[rule], strict=True)]
    return math.fsum(gaps) / len(gaps)


def validation_accuracies(group: ModelGroup) -> dict[str, dict[int, float]]:
    """Mean accuracy over seeds of every rule that needs no fit on these sizes, at the validation sizes."""
    at: dict[str, dict[int, list[float]]] = {}
    for row in group.survey:
        if row["what"] == "validation" and not row["grid"]:
            _append(at, str(row["rule"]), row, "accuracy")
    names = (*temperature_rules(Fitted(train_entropy=0.0)), "hard")
    return {name: {n: statistics.fmean(v) for n, v in at[name].items()} for name in names if name in at}


def largest_regrets(found: Sequence[ModelGroup]) -> dict[str, float]:
    """For each rule the most that it loses, in any group and at any validation size, against the best rule there."""
    tables = [validation_accuracies(group) for group in found]
    sizes = tables[0]["softmax"]
    return {
        rule: max(max(t[r][n] for r in t) - t[rule][n] for t in tables for n in sizes)
        for rule in tables[0]
        if all(rule in t for t in tables)
    }


def mean_of(values: Sequence[float]) -> float:
    """The plain mean."""
    return sum(values) / len(values)


def find_best(found: Sequence[ModelGroup]) -> ModelGroup:
    """The models that find the maximum most often in the largest sets."""
    return max(found, key=lambda group: group.mean("hard", max(group.sizes)))
