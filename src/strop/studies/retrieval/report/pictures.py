"""The study's figures, from groups of models: what to draw. `drawings.py` says how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from strop.normalisers import AdaptiveTemperature
from strop.records import real
from strop.studies.retrieval.evaluation.temperature_rules import Fitted, temperature_rules
from strop.studies.retrieval.evaluation.top_item_weights import top_item_weights
from strop.studies.retrieval.jobs import ModelRef
from strop.studies.retrieval.report import drawings
from strop.studies.retrieval.report.groups import HINDSIGHT, RECOMMENDED, ModelGroup, best_constant, mean_of
from strop.studies.retrieval.settings import PUBLISHED
from strop.studies.retrieval.study import PAPER_SIZES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("softmax", "adaptive", RECOMMENDED, "hard", HINDSIGHT, "oracle any")


def draw_figures(found: Sequence[ModelGroup], models: Sequence[ModelRef]) -> dict[str, Figure]:
    """Every figure by its file name."""
    first = found[0]
    panels = {g.name: {r: [100 * g.mean(r, n) for n in first.sizes] for r in LINES} for g in found}
    return {
        "accuracy": drawings.draw_accuracy(first.sizes, panels, PUBLISHED, PAPER_SIZES),
        **_draw_weights(found, models),
        "dispersion": _draw_dispersion(first, [g for g in found if g.weights == "last"]),
        "refit": _draw_fits(first),
        "order": _draw_order(found),
        "growth": _draw_growth(first),
    }


def _draw_weights(found: Sequence[ModelGroup], models: Sequence[ModelRef]) -> dict[str, Figure]:
    """A figure for the first model of each setting."""
    out = {}
    for model in {m.setting: m for m in reversed(models) if m.kind == "last"}.values():
        group = next(g for g in found if (g.setting, g.weights) == (model.setting, model.kind))
        out[f"weights-{model.setting}"] = drawings.draw_strips(_top_weights(model, group, found[0].sizes))
    return out


def _draw_dispersion(first: ModelGroup, chosen: Sequence[ModelGroup]) -> Figure:
    return drawings.draw_dispersion(
        first.sizes,
        {g.name: _means(g, "entropy") for g in chosen},
        {g.name: _means(g, "top weight") for g in chosen},
        _means(first, "spread"),
        mean_of(first.survey_values("slope")),
    )


def _draw_order(found: Sequence[ModelGroup]) -> Figure:
    return drawings.draw_order(
        found[0].sizes,
        {g.name: [100 * v for v in _means(g, "top is true")] for g in found},
        {g.name: [100 * v for v in _means(g, "right order, simulated")] for g in found},
        {g.name.replace(", ", ",\n"): _offsets(g) for g in found},
    )


def _draw_growth(group: ModelGroup) -> Figure:
    shown = ("adaptive", "adaptive, held", "log n", "1 + log", RECOMMENDED)
    betas = {rule: [mean_of(group.beta[rule][n]) for n in group.sizes] for rule in shown if rule in group.beta}
    best = [best_constant(group, n)[0] for n in group.sizes]
    return drawings.draw_growth(group.sizes, betas, [128.0 if b == "hard" else float(b.split()[1]) for b in best])


def _top_weights(model: ModelRef, group: ModelGroup, sizes: list[int]) -> dict[str, dict[int, Any]]:
    every = temperature_rules(Fitted(train_entropy=real(group.fit["train entropy"])))
    chosen = {name: every[name] for name in ("softmax", "adaptive", RECOMMENDED)}
    found = top_item_weights(model.load(), model.train.task, sizes, chosen)
    return {name: {n: weights.numpy() for n, weights in at.items()} for name, at in found.items()}


def _draw_fits(group: ModelGroup) -> Figure:
    import numpy as np
    import torch

    from strop.sharpness import RowStats

    examples = [row for row in group.survey if row["what"] == "example"]
    end = max((real(row["entropy"]) for row in examples), default=0.0)
    shown = examples[:: max(1, len(examples) // 1500)]  # enough for the eye, and the page stays small
    entropy, beta = ([real(row[key]) for row in shown] for key in ("entropy", "beta"))
    at = np.linspace(0, 9.7, 400)
    stats = RowStats.empty((400,), torch.zeros(400))._replace(
        n_keys=torch.full((400,), 16384), logsumexp=torch.tensor(at, dtype=torch.float32), mean=torch.zeros(400)
    )
    fits = {"published": AdaptiveTemperature(), "published, held": AdaptiveTemperature(beyond_fit="hold")}
    coefficients = [real(v) for key, v in group.fit.items() if key.startswith("refit")]
    if coefficients:
        fits["refit by the paper's recipe"] = AdaptiveTemperature(coefficients, threshold=0.0)
    curves = {name: fit.inverse_temperature(stats).tolist() for name, fit in fits.items()}
    return drawings.draw_fits(entropy, beta, curves, at.tolist(), end)


def _means(group: ModelGroup, statistic: str) -> list[float]:
    return [mean_of(group.statistics[statistic][n]) for n in group.sizes]


def _offsets(group: ModelGroup) -> list[list[float]]:
    by_seed: dict[object, list[float]] = {}
    for row in group.survey:
        if row["what"] == "offset":
            by_seed.setdefault(row["seed"], []).append(real(row["value"]))
    return list(by_seed.values())
