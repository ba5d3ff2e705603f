"""The study's records as Table 1, figures and one page; everything is written under <root>/reproduce/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strop.evaluate.rules import Fitted, rules
from strop.evaluate.strips import strips
from strop.experiments import reproduce_text as words
from strop.experiments.reproduce import Study
from strop.experiments.reproduce_jobs import EXPERIMENT, VALIDATION, ModelRef
from strop.experiments.reproduce_settings import PUBLISHED, PUBLISHED_P, SETTINGS, SIZES
from strop.experiments.reproduce_tables import (
    HINDSIGHT,
    RECOMMENDED,
    Group,
    best_constant,
    claims,
    distance,
    groups,
    paired_p,
    regrets,
    validation,
)
from strop.normalisers import AdaptiveTemperature
from strop.records import Record, canonical, provenance, write, write_csv, write_text
from strop.report import figures
from strop.report import reproduce as draw
from strop.report.format import fixed, mean_sd, number, p_value
from strop.report.page import Page
from strop.report.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("softmax", "adaptive", RECOMMENDED, "hard", HINDSIGHT, "oracle any")


def accuracy_table(group: Group, *, spread: bool = True) -> Table:
    """Table 1 of one group: the published rows, every rule, and the tests. `spread` adds standard deviations."""
    sizes = group.sizes
    rows: list[list[object]] = []
    if set(sizes) <= set(SIZES):
        at = [SIZES.index(n) for n in sizes]
        rows += [[f"paper: {name}", *(fixed(values[i], 1) for i in at)] for name, values in PUBLISHED.items()]
        rows.append(["paper: p", *(p_value(PUBLISHED_P.get(n)) for n in sizes)])
    for rule, values in group.by_rule.items():
        cells = [mean_sd(values[n], scale=100) if spread else fixed(100 * group.mean(rule, n)) for n in sizes]
        rows.append([f"{rule} (recommended)" if rule == RECOMMENDED else rule, *cells])
    for a, b in (("adaptive", "softmax"), (RECOMMENDED, "adaptive")):
        tests = [paired_p(group.by_rule[a][n], group.by_rule[b][n]) for n in sizes]
        rows.append([f"p: {a} against {b}", *map(p_value, tests)])
    columns = [Column("rule", "accuracy, %"), *(Column(str(n), f"{n:,}", str, "right") for n in sizes)]
    return Table(columns, rows, f"{group.name}: {group.seeds} seeds")


def claims_table(found: Sequence[Group]) -> Table:
    """What the study set out to show, and whether it did."""
    rows = [[claim.text, "yes" if claim.holds else "NO", claim.evidence] for claim in claims(found)]
    return Table([Column("claim"), Column("holds"), Column("evidence")], rows, "Claims, judged by this run's numbers")


def settings_table(found: Sequence[Group]) -> Table:
    """Every setting, why it is there, and how far its softmax row is from the published one."""
    rows = [[g.name, SETTINGS[g.setting].why, distance(g), g.seeds] for g in found]
    columns = [
        Column("setting"),
        Column("why"),
        Column("distance", "distance, points", lambda v: fixed(v, 2)),
        Column("seeds"),
    ]
    return Table(columns, rows, "Mean absolute distance from the published softmax row over the eleven sizes")


def validation_table(found: Sequence[Group]) -> Table:
    """Every rule at the largest validation size, and its largest regret at any: what the choice was made by."""
    tables = {g.name: validation(g) for g in found}
    first, last = (found[0].trained * times for times in (min(VALIDATION), max(VALIDATION)))
    rows = [
        [
            rule,
            *(100 * t[rule][last] for t in tables.values()),
            100 * _mean([v for t in tables.values() for v in t[rule].values()]),
            100 * regret,
        ]
        for rule, regret in regrets(found).items()
    ]
    heads = [Column(name, f"{name}, {last} items", lambda v: fixed(v, 2)) for name in tables]
    mean = Column("mean", f"mean, {first} to {last} items", lambda v: fixed(v, 2))
    regret = Column("regret", f"largest regret, {first} to {last} items", lambda v: fixed(v, 2))
    return Table([Column("rule"), *heads, mean, regret], rows, "Validation: accuracy, %, and regret, points")


def order_table(found: Sequence[Group]) -> Table:
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
    columns = [Column("models"), Column("what", "% of sets"), *(Column(str(n), f"{n:,}", str, "right") for n in sizes)]
    return Table(columns, rows, "The order of the logits, which no temperature changes")


def offsets_table(found: Sequence[Group]) -> Table:
    """Slope of the logits at the top and how far the classes are out of line."""
    rows = []
    for g in found:
        slope, deviation = g.surveyed("slope"), g.surveyed("offset deviation")
        entropy = g.surveyed("train entropy")
        rows.append([g.name, mean_sd(slope, 0), mean_sd(deviation, 2, 1000), mean_sd(entropy, 3)])
    heads = (
        "models",
        "slope, logits per unit of value",
        "sd of class offsets, thousandths",
        "entropy in training, nats",
    )
    return Table([Column(h, align="left" if i == 0 else "right") for i, h in enumerate(heads)], rows)


def pictures(found: Sequence[Group], models: Sequence[ModelRef]) -> dict[str, Figure]:
    """Every figure by its file name."""
    sizes = found[0].sizes
    panels = {g.name: {r: [100 * g.mean(r, n) for n in sizes] for r in LINES} for g in found}
    out = {"accuracy": draw.accuracy(sizes, panels, PUBLISHED, SIZES)}
    for model in {m.setting: m for m in reversed(models) if m.kind == "last"}.values():
        group = next(g for g in found if (g.setting, g.weights) == (model.setting, model.kind))
        out[f"weights-{model.setting}"] = draw.strips(_strips(model, group, sizes))
    first = found[0]
    chosen = [g for g in found if g.weights == "last"]
    out["dispersion"] = draw.dispersion(
        sizes,
        {g.name: _means(g, "entropy") for g in chosen},
        {g.name: _means(g, "top weight") for g in chosen},
        _means(first, "spread"),
        _mean(first.surveyed("slope")),
    )
    out["refit"] = _scatter(first)
    out["order"] = draw.order(
        sizes,
        {g.name: [100 * v for v in _means(g, "top is true")] for g in found},
        {g.name: [100 * v for v in _means(g, "right order, simulated")] for g in found},
        {g.name.replace(", ", ",\n"): _offsets(g) for g in found},
    )
    shown = ("adaptive", "adaptive, held", "log n", "1 + log", RECOMMENDED)
    betas = {rule: [_mean(first.beta[rule][n]) for n in sizes] for rule in shown if rule in first.beta}
    best = [best_constant(first, n)[0] for n in sizes]
    out["growth"] = draw.growth(sizes, betas, [128.0 if b == "hard" else float(b.split()[1]) for b in best])
    return out


def _strips(model: ModelRef, group: Group, sizes: list[int]) -> dict[str, dict[int, Any]]:
    every = rules(Fitted(train_entropy=float(str(group.fit["train entropy"]))))
    chosen = {name: every[name] for name in ("softmax", "adaptive", RECOMMENDED)}
    found = strips(model.load(), model.train.task, sizes, chosen)
    return {name: {n: weights.numpy() for n, weights in at.items()} for name, at in found.items()}


def _scatter(group: Group) -> Figure:
    import numpy as np
    import torch

    from strop.sharpness import RowStats

    examples = [row for row in group.survey if row["what"] == "example"]
    end = max((float(str(row["entropy"])) for row in examples), default=0.0)
    shown = examples[:: max(1, len(examples) // 1500)]  # enough for the eye, and the page stays small
    entropy, beta = ([float(str(row[key])) for row in shown] for key in ("entropy", "beta"))
    at = np.linspace(0, 9.7, 400)
    stats = RowStats.empty((400,), torch.zeros(400))._replace(
        n_keys=torch.full((400,), 16384), logsumexp=torch.tensor(at, dtype=torch.float32), mean=torch.zeros(400)
    )
    fits = {"published": AdaptiveTemperature(), "published, held": AdaptiveTemperature(beyond_fit="hold")}
    coefficients = [float(str(v)) for key, v in group.fit.items() if key.startswith("refit")]
    if coefficients:
        fits["refit by the paper's recipe"] = AdaptiveTemperature(coefficients, threshold=0.0)
    curves = {name: fit.inverse_temperature(stats).tolist() for name, fit in fits.items()}
    return draw.scatter(entropy, beta, curves, at.tolist(), end)


def _means(group: Group, statistic: str) -> list[float]:
    return [_mean(group.statistics[statistic][n]) for n in group.sizes]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _offsets(group: Group) -> list[list[float]]:
    by_seed: dict[object, list[float]] = {}
    for row in group.survey:
        if row["what"] == "offset":
            by_seed.setdefault(row["seed"], []).append(float(str(row["value"])))
    return list(by_seed.values())


def write_results(
    study: Study, records: list[Record], models: Sequence[ModelRef], root: str | Path
) -> tuple[Page, Path]:
    """Write records.jsonl, table1.csv, table1.md, figures and report.html; return the page and where it is."""
    folder = Path(root) / EXPERIMENT
    found = groups(records)
    origin = provenance()
    write(folder / "records.jsonl", [{"what": "provenance", **origin, "config": canonical(study)}, *records])
    tables = [accuracy_table(group) for group in found]
    write_csv(folder / "table1.csv", [{"models": t.caption, **row} for t in tables for row in t.records()])
    write_text(folder / "table1.md", "\n".join(f"{t.caption}\n\n{t.markdown()}" for t in tables))
    drawn = pictures(found, models)
    for name, figure in drawn.items():
        figures.png(figure, folder / "figures" / f"{name}.png")
    page = _page(found, drawn, study, origin)
    page.data("config", canonical(study))
    page.write(folder / "report.html")
    return page, folder / "report.html"


def striking(records: Sequence[Record]) -> str:
    """Return the most striking line of the study, for a terminal."""
    best = _best(groups(records))
    last = max(best.sizes)
    accuracy = {rule: f"{fixed(100 * best.mean(rule, last))} %" for rule in ("softmax", "adaptive", RECOMMENDED)}
    return (
        f"Trained on at most {best.trained} items, shown {number(last)} ({best.name}): softmax {accuracy['softmax']}, "
        f"adaptive temperature as published {accuracy['adaptive']}, {RECOMMENDED} held {accuracy[RECOMMENDED]}."
    )


def command(study: Study) -> str:
    """Return the command that makes this study."""
    usual, flags = (Study.quick(), " --quick") if study.bundled else (Study(), "")
    for name in ("settings", "seeds", "sets", "sizes", "steps", "train_sizes", "classes"):
        value = getattr(study, name)
        if value != getattr(usual, name):
            text = ",".join(map(str, value)) if isinstance(value, tuple) else value
            flags += f" --{name.replace('_', '-')} {text}"
    return f"strop reproduce{flags}"


def _best(found: Sequence[Group]) -> Group:
    """The models that find the maximum most often in the largest sets."""
    return max(found, key=lambda group: group.mean("hard", max(group.sizes)))


def _page(found: Sequence[Group], drawn: dict[str, Figure], study: Study, origin: Record) -> Page:
    page = Page(
        "Softmax is not enough: the max-retrieval study", lead=words.LEAD.format(study.trained), provenance=origin
    )
    last, best = max(found[0].sizes), _best(found)
    for rule in ("softmax", "adaptive", RECOMMENDED):
        page.fact(f"{fixed(100 * best.mean(rule, last))} %", f"{rule}, {best.name}, at {number(last)} items")
    svg = {name: figures.svg(figure) for name, figure in drawn.items()}
    section = page.section("Accuracy as sets grow")
    section.text(words.ACCURACY.format(study.trained, 2 * study.trained, 4 * study.trained))
    section.figure(
        svg["accuracy"], words.ACCURACY_CAPTION.format(study.trained), alt="Accuracy falls as sets grow, for every rule"
    )
    for group in found:
        section.table(accuracy_table(group))
    section = page.section("What was to be shown")
    section.table(claims_table(found))
    section.table(settings_table(found))
    section = page.section("Attention fades")
    section.text(words.STRIPS)
    for name in (n for n in svg if n.startswith("weights-")):
        section.figure(
            svg[name], f"Setting `{name.removeprefix('weights-')}`, seed 0.", alt="The right column fades as n grows"
        )
    section.text(words.DISPERSION)
    section.figure(svg["dispersion"], words.DISPERSION_CAPTION, alt="Entropy rises and top weight falls with n")
    section = page.section("Which temperature")
    section.text(words.RULES.format(study.trained, 4 * study.trained))
    section.figure(svg["growth"], words.GROWTH_CAPTION, alt="Inverse temperature against set size, by rule")
    section.table(validation_table(found), sortable=True)
    section.figure(svg["refit"], words.REFIT_CAPTION, alt="Best inverse temperature against entropy, with fits")
    section = page.section("What temperature cannot mend")
    section.text(words.ORDER)
    section.figure(svg["order"], words.ORDER_CAPTION, alt="Frequency of the right order, and class offsets")
    section.table(order_table(found))
    section.table(offsets_table(found))
    section = page.section("Where this comes from")
    section.text(words.CERTAINTY)
    section.code(command(study))
    return page
