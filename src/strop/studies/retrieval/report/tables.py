"""The study's tables: Table 1 of every group, the claims, the settings, the choice of a rule, the order of logits."""

from __future__ import annotations

from collections.abc import Sequence

from strop.report.format import fixed, mean_sd, p_value
from strop.report.tables import Column, Table, size_columns
from strop.studies.retrieval.jobs import VALIDATION_MULTIPLES
from strop.studies.retrieval.report.claims import judge_claims
from strop.studies.retrieval.report.groups import (
    RECOMMENDED,
    ModelGroup,
    distance_to_paper,
    largest_regrets,
    mean_of,
    validation_accuracies,
)
from strop.studies.retrieval.settings import PUBLISHED, PUBLISHED_P, SETTINGS
from strop.studies.retrieval.study import PAPER_SIZES
from strop.studies.significance import paired_p


def accuracy_table(group: ModelGroup, *, spread: bool = True) -> Table:
    """Table 1 of one group: the published rows, every rule, and the tests. `spread` adds standard deviations."""
    sizes = group.sizes
    rows: list[list[object]] = []
    if set(sizes) <= set(PAPER_SIZES):
        at = [PAPER_SIZES.index(n) for n in sizes]
        rows += [[f"paper: {name}", *(fixed(values[i], 1) for i in at)] for name, values in PUBLISHED.items()]
        rows.append(["paper: p", *(p_value(PUBLISHED_P.get(n)) for n in sizes)])
    for rule, values in group.by_rule.items():
        cells = [mean_sd(values[n], scale=100) if spread else fixed(100 * group.mean(rule, n)) for n in sizes]
        rows.append([f"{rule} (recommended)" if rule == RECOMMENDED else rule, *cells])
    for a, b in (("adaptive", "softmax"), (RECOMMENDED, "adaptive")):
        tests = [paired_p(group.by_rule[a][n], group.by_rule[b][n]) for n in sizes]
        rows.append([f"p: {a} against {b}", *map(p_value, tests)])
    columns = [Column("rule", "accuracy, %"), *size_columns(sizes)]
    return Table(columns, rows, f"{group.name}: {group.seeds} seed{'s' * (group.seeds != 1)}")


def claims_table(found: Sequence[ModelGroup]) -> Table:
    """What the study set out to show, and whether it did."""
    rows = [[claim.text, "yes" if claim.holds else "NO", claim.evidence] for claim in judge_claims(found)]
    return Table([Column("claim"), Column("holds"), Column("evidence")], rows, "Claims, judged by this run's numbers")


def settings_table(found: Sequence[ModelGroup]) -> Table:
    """Every setting, why it is there, and how far its softmax row is from the published one."""
    rows = [[g.name, SETTINGS[g.setting].why, distance_to_paper(g), g.seeds] for g in found]
    columns = [
        Column("setting"),
        Column("why"),
        Column("distance", "distance, points", lambda v: fixed(v, 2)),
        Column("seeds"),
    ]
    return Table(columns, rows, "Mean absolute distance from the published softmax row over the eleven sizes")


def validation_table(found: Sequence[ModelGroup]) -> Table:
    """Every rule at the largest validation size, and its largest regret at any: what the choice was made by."""
    tables = {g.name: validation_accuracies(g) for g in found}
    first, last = (found[0].trained_size * times for times in (min(VALIDATION_MULTIPLES), max(VALIDATION_MULTIPLES)))
    rows = [
        [
            rule,
            *(100 * t[rule][last] for t in tables.values()),
            100 * mean_of([v for t in tables.values() for v in t[rule].values()]),
            100 * regret,
        ]
        for rule, regret in largest_regrets(found).items()
    ]
    heads = [Column(name, f"{name}, {last} items", lambda v: fixed(v, 2)) for name in tables]
    mean = Column("mean", f"mean, {first} to {last} items", lambda v: fixed(v, 2))
    regret = Column("regret", f"largest regret, {first} to {last} items", lambda v: fixed(v, 2))
    return Table([Column("rule"), *heads, mean, regret], rows, "Validation: accuracy, %, and regret, points")


def order_table(found: Sequence[ModelGroup]) -> Table:
    """What temperature cannot mend, for each group."""
    sizes = found[0].sizes
    rows: list[list[object]] = []
    for g in found:
        for name in ("top is true", "right order, simulated"):
            rows.append([g.name, name, *(mean_sd(g.statistics[name][n], scale=100) for n in sizes)])
        rows.append(
            [
                g.name,
                "accuracy, true maximum fed in",
                *(mean_sd(g.by_rule["true maximum"][n], scale=100) for n in sizes),
            ]
        )
    columns = [Column("models"), Column("what", "% of sets"), *size_columns(sizes)]
    return Table(columns, rows, "The order of the logits, which no temperature changes")


def offsets_table(found: Sequence[ModelGroup]) -> Table:
    """Slope of the logits at the top and how far the classes are out of line."""
    rows = []
    for g in found:
        slope, deviation = g.survey_values("slope"), g.survey_values("offset deviation")
        entropy = g.survey_values("train entropy")
        rows.append([g.name, mean_sd(slope, 0), mean_sd(deviation, 2, 1000), mean_sd(entropy, 3)])
    heads = (
        "models",
        "slope, logits per unit of value",
        "sd of class offsets, thousandths",
        "entropy in training, nats",
    )
    return Table([Column(h, align="left" if i == 0 else "right") for i, h in enumerate(heads)], rows)
