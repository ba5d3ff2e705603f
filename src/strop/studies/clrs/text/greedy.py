"""Greedy choices. Items that are equal keep their order."""

from __future__ import annotations

from strop.studies.clrs.text.algorithm import Vector


def select_activities(s: Vector, f: Vector) -> tuple[Vector]:
    """Take activities by their finish, each that starts no earlier than the last one taken ends."""
    chosen, end = [0] * len(s), float("-inf")
    for i in sorted(range(len(s)), key=lambda i: f[i]):
        if s[i] >= end:
            chosen[i], end = 1, f[i]
    return (chosen,)


def schedule_tasks(d: Vector, w: Vector) -> tuple[Vector]:
    """Take tasks by their value, the largest first, each whose deadline is later than the number of those taken."""
    chosen: Vector = [0] * len(d)
    for i in sorted(range(len(d)), key=lambda i: -w[i]):
        if sum(chosen) < d[i]:
            chosen[i] = 1
    return (chosen,)
