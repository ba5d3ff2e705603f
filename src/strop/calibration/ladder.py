"""The form auto: climb from form to form, while what validation says gains significantly.

    constant → pairs → query of rank 1 → 2 → 4 → 8

Every rung is calibrated with the same data, budget, guard and validation. Then all are compared on the same groups of
prompts: those to stop by, and more of their kind, so that there are at least GROUPS. A rung *gains* when the mean loss
is below that of the best rung so far and a sign-flip test over groups tells them apart. A rung that gains nothing ends
the climb, unless the next one is of another form: a low-rank edit is no larger `pairs`, and where heads share a query
norm `pairs` is no larger `constant`. With a target, the first rung whose mean loss is at most the target ends it.

The rung that is kept is the last one that gained, or that reached the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import torch

from strop._flips import flip_p
from strop._progress import show_progress
from strop.calibration.data import Data
from strop.calibration.maker import EdgeMaker
from strop.calibration.numbers import Numbers
from strop.calibration.objective import Batch
from strop.calibration.settings import Settings
from strop.edges.card import describe_rung
from strop.edges.edge import Edge
from strop.errors import ArgumentError
from strop.ranks import ranks_here

GROUPS = 12
"""Groups of prompts to compare rungs by: with five, no test over them reaches 0.05."""

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Rung:
    """A form, with the rank that `query` has."""

    form: str
    rank: int = 1


RUNGS = (Rung("constant"), Rung("pairs"), *(Rung("query", rank) for rank in (1, 2, 4, 8)))
"""From the fewest numbers to the most."""


def climb(maker: EdgeMaker, settings: Settings, target: float | None = None) -> Edge:
    """Return the edge of the rung that is kept; its `made` tells of all that were tried."""
    groups = draw_groups(maker)
    best, kept = _measure(maker, groups, None, "before the first rung"), None
    ladder: dict[str, Any] = {"groups": len(groups), "untouched": fmean(best), "target": target, "rungs": []}
    for rung, above in zip(RUNGS, (*RUNGS[1:], None), strict=True):
        edge, losses, row = _try_rung(maker, replace(settings, form=rung.form, rank=rung.rank), groups, best)
        ladder["rungs"].append(asdict(rung) | row)
        with show_progress("climbing", None, maker.progress) as bar:
            bar.say(describe_rung(ladder["rungs"][-1]))
        if edge is None:
            continue
        reached = target is not None and row["loss"] <= target
        if row["gained"] or reached or kept is None:
            kept, ladder["kept"] = edge, asdict(rung)
            best = losses if row["gained"] else best
        if reached or (target is None and not row["gained"] and above is not None and above.form == rung.form):
            break
    if kept is None:
        raise ArgumentError(f"form auto must have a rung that suits the model, got none. {row['skipped']}")
    return replace(kept, made={**kept.made, "ladder": ladder})


def draw_groups(maker: EdgeMaker) -> list[Batch]:
    """Return the groups that one stops by and, of a built-in task, more of the same split, sizes and phrasings."""
    data, model, reader = maker.data, maker.opened.model, maker.reader
    if data.recipe.task == "text":
        return data.validation(model, reader, GROUPS)
    groups = data.validation(model, reader)
    if data.prompts is not None:
        return groups
    for more in range(1, -(-GROUPS // len(groups))):
        groups += Data(replace(data.recipe, seed=data.recipe.seed + more)).validation(model, reader)
    return groups


def find_obstacle(maker: EdgeMaker, settings: Settings) -> str:
    """Return why the model cannot have numbers of this form; nothing where it can."""
    try:
        Numbers(maker.opened.model, settings.form, settings.outputs, settings.rank)
    except ArgumentError as error:
        return str(error)
    return ""


def _try_rung(
    maker: EdgeMaker, settings: Settings, groups: Sequence[Batch], best: Sequence[float]
) -> tuple[Edge | None, list[float], dict[str, Any]]:
    """A rung's edge, its loss on every group, and what to tell of it; no edge where the model cannot have it."""
    obstacle = find_obstacle(maker, settings)
    if obstacle:
        return None, [], {"skipped": obstacle}
    edge = maker.make(settings, f"climbing, {settings.form}", keep=True)
    losses = _measure(maker, groups, edge, f"comparing {settings.form}")
    return edge, losses, _compare(edge, best, losses)


@torch.no_grad()
def _measure(maker: EdgeMaker, groups: Sequence[Batch], edge: Edge | None, title: str) -> list[float]:
    """The loss on every group, with the edge on."""
    model = maker.opened.model
    with show_progress(title, len(groups), maker.progress) as bar:

        def lose(i: int) -> float:
            bar.advance(ranks_here().size)
            return float(groups[i].loss(model))

        with nullcontext() if edge is None else edge.put_on(model):
            return ranks_here().collect(len(groups), lose)


def _compare(edge: Edge, before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    """What a rung gains over the best so far, and what it costs."""
    changes, progress = [now - then for then, now in zip(before, after, strict=True)], edge.made["progress"]
    change, p = fmean(changes), flip_p(changes)
    return {
        "numbers": edge.size, "loss": fmean(after), "change": change, "p": p, "gained": change < 0 and p < SIGNIFICANT,
        "drift": progress["best_drift"], "harm": progress["best_harm"], "seconds": progress["seconds"],
    }  # fmt: skip
