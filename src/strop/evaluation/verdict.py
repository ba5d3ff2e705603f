"""What a comparison means, in words: all answers together, the groups that differ, prose."""

from __future__ import annotations

import math
from collections.abc import Sequence

from strop.records import Record, real
from strop.report.format import fixed, number, p_value, percent

SIGNIFICANT = 0.05

FEWEST = 6
"""Passages below which the test over passages cannot reach 0.05: 2/2⁵ is 0.06."""

OWN = "jsonl"
"""The phrasing of a user's own prompts, which have no name for it, and no size unless they say one."""


def write_verdict(
    overall: Record, answers: Sequence[Record], prose: Sequence[Record], by_size: Sequence[Record] = ()
) -> str:
    """Say what the edge gained and cost: the result first, then every group that became worse.

    Where sizes were counted over all phrasings, those are the groups.
    """
    change = max((real(row["change"]) for row in prose), default=math.nan)
    groups = by_size or answers
    parts = [_result(overall), _groups(groups), f"Prose: {signed(change)} nats a token at worst."]
    if any(real(row["passages"]) < FEWEST for row in groups):
        parts.append(f"With fewer than {FEWEST} passages no group can be significant: ask for more prompts.")
    return " ".join(part for part in parts if part)


def judge(row: Record) -> str:
    """Return better, worse or not told apart; all tests of the row must agree, corrected where that was done."""
    tests = ("p_holm",) if "p_holm" in row else ("p_mcnemar", "p_passages")
    if max(real(row[name]) for name in tests) >= SIGNIFICANT:
        return "not told apart"
    return "better" if real(row["after"]) > real(row["before"]) else "worse"


def name_prompts(row: Record) -> str:
    """Return what a group of prompts is called: its task and phrasing, or the file of a user's own."""
    return str(row["task"]) if row["phrasing"] == OWN else f"{row['task']}: {row['phrasing']}"


def interval(row: Record, side: str, unit: str = "") -> str:
    """Return the share of exact answers on one side, with its interval: 90.0 (85.0–95.0)."""
    low, high = (percent(real(row[f"{side}_{end}"])) for end in ("low", "high"))
    return f"{percent(real(row[side]))}{unit} ({low}–{high})"


def signed(value: object) -> str:
    """Return a change of loss: +0.0040."""
    return ("+" if real(value) >= 0 else "−") + fixed(abs(real(value)), 4)


def _result(overall: Record) -> str:
    kind = judge(overall)
    said = kind if kind == "not told apart" else f"significantly {kind}"
    tests = (
        f"p {p_value(real(overall['p_mcnemar']))} over prompts, {p_value(real(overall['p_passages']))} over passages"
    )
    before, after = (interval(overall, side, " %") for side in ("before", "after"))
    return f"Exact answers of {number(overall['prompts'])} prompts: {before} → {after}, {said} ({tests})."


def _groups(answers: Sequence[Record]) -> str:
    """Which groups differ; of a single group all has been said."""
    if len(answers) < 2:
        return ""
    judged = [judge(row) for row in answers]
    worse = [_place(row) for row, kind in zip(answers, judged, strict=True) if kind == "worse"]
    gain = f"Significantly better on {judged.count('better')} of {len(answers)} groups of prompts"
    return f"{gain}; WORSE on {'; '.join(worse)}." if worse else f"{gain}, worse on none."


def _place(row: Record) -> str:
    return f"{name_prompts(row)} at {row['size']}" if row["size"] else name_prompts(row)
