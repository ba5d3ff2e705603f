"""What the study set out to show, judged by its numbers alone.

p-values are two-sided paired t-tests over seeds, on the same weights and the same sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strop.studies.retrieval.report.groups import HINDSIGHT, RECOMMENDED, ModelGroup, distance_to_paper
from strop.studies.significance import paired_p

NOT_MEASURED = "no such size was measured"


@dataclass(frozen=True)
class Claim:
    """A sentence that the study must show, whether it does, and the numbers."""

    text: str
    holds: bool
    evidence: str


def judge_claims(found: Sequence[ModelGroup]) -> list[Claim]:
    """What the study set out to show, group by group, judged by its numbers alone."""
    out = []
    for group in found:
        if not group.by_rule:
            continue
        out += [_adaptive_helps(group), _never_worse(group), _better_from(group), _near_hindsight(group)]
        if group.setting == "nearest" and group.weights == "last" and (gap := distance_to_paper(group)) is not None:
            out.insert(0, Claim("nearest: within 4 points of the published softmax row, on average over sizes",
                                gap <= 4, f"{gap:.2f} points"))  # fmt: skip
    return out


def _adaptive_helps(group: ModelGroup) -> Claim:
    sizes = [n for n in group.sizes if n >= 256]
    tests = {n: paired_p(group.by_rule["adaptive"][n], group.by_rule["softmax"][n]) for n in sizes}
    better = [group.mean("adaptive", n) > group.mean("softmax", n) for n in sizes]
    holds = bool(sizes) and all(better) and all(p is not None and p < 0.01 for p in tests.values())
    shown = "p at " + ", ".join(f"{n}: {'–' if p is None else f'{p:.1g}'}" for n, p in tests.items())
    text = f"{group.name}: adaptive temperature beats softmax (p < 0.01) from 256 items on"
    return Claim(text, holds, shown if sizes else NOT_MEASURED)


def _never_worse(group: ModelGroup) -> Claim:
    gaps = {n: 100 * (group.mean(RECOMMENDED, n) - group.mean("adaptive", n)) for n in group.sizes}
    least = min(gaps, key=gaps.__getitem__)
    text = f"{group.name}: the recommended rule is at least as good as adaptive temperature at every size"
    p = paired_p(group.by_rule[RECOMMENDED][least], group.by_rule["adaptive"][least])
    evidence = f"least gain {gaps[least]:+.3f} points, at {least} items (p {'–' if p is None else f'{p:.1g}'})"
    return Claim(text, gaps[least] >= 0, evidence)


def _better_from(group: ModelGroup, start: int = 2048) -> Claim:
    sizes = [n for n in group.sizes if n >= start]
    tests = {n: paired_p(group.by_rule[RECOMMENDED][n], group.by_rule["adaptive"][n]) for n in sizes}
    gains = {n: 100 * (group.mean(RECOMMENDED, n) - group.mean("adaptive", n)) for n in sizes}
    holds = bool(sizes) and all(p is not None and p < 0.01 and gains[n] > 0 for n, p in tests.items())
    shown = ", ".join(f"{n}: {gains[n]:+.1f} (p {'–' if p is None else f'{p:.1g}'})" for n, p in tests.items())
    text = f"{group.name}: and significantly better (p < 0.01) from {start} items on"
    return Claim(text, holds, shown if sizes else NOT_MEASURED)


def _near_hindsight(group: ModelGroup) -> Claim:
    gaps = {n: 100 * (group.mean(HINDSIGHT, n) - group.mean(RECOMMENDED, n)) for n in group.sizes}
    most = max(gaps, key=gaps.__getitem__)
    text = f"{group.name}: and within 1.5 points of the best single β chosen with hindsight"
    return Claim(text, gaps[most] <= 1.5, f"largest gap {gaps[most]:.2f} points, at {most} items")
