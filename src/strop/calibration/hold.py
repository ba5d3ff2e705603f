"""An edge without answers or gradients: hold each head's entropy at what it was at a trusted length.

    for every head and length n > n₀:  β(n) such that  mean entropy at n with β(n) = mean entropy at n₀ with β = 1
    b = Σ (β(n) − 1)·x / Σ x²,  x = log(n/n₀);      then β = 1 + b·log(max(n, n₀)/n₀)   (the form `hold`)

Statistics come from the last eighth of ordinary texts, where nearly the whole context is visible. Up to n₀ keys the
model is untouched, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from strop._checks import require
from strop.edges.edge import Edge
from strop.edges.temperatures import Hold
from strop.kernels import Request
from strop.patching.block import Change, apply
from strop.patching.measure import row_stats
from strop.patching.sites import find_sites

GRID = tuple(2.0 ** (i / 4) for i in range(-4, 9))
"""β from a half to four, in steps of a fourth root of two."""

ROWS = 32
SMALLEST = 0.01
"""Slopes smaller than this are noise: such a head is left alone."""


@torch.no_grad()
def hold_entropy(model: nn.Module, windows: Mapping[int, Tensor], trusted: int) -> Edge:
    """Return the edge that holds entropies at their value at `trusted` keys, from length → tokens [count, n]."""
    longer = sorted(n for n in windows if n > trusted)
    require(trusted in windows, "windows must hold the trusted length", f"{trusted} not among {sorted(windows)}")
    require(len(longer) > 0, "windows must hold a length beyond the trusted one", sorted(windows))
    targets = {name: curve[GRID.index(1.0)] for name, curve in measure_entropies(model, windows[trusted]).items()}
    slopes = {name: torch.zeros(len(target)) for name, target in targets.items()}
    weight = sum(math.log(n / trusted) ** 2 for n in longer)
    for n in longer:
        for name, curve in measure_entropies(model, windows[n]).items():
            slopes[name] += (_solve(curve, targets[name]) - 1.0) * math.log(n / trusted) / weight
    numbers = {name: _numbers(slope, trusted) for name, slope in slopes.items()}
    made = {"form": "hold", "trusted": trusted, "lengths": sorted(windows)}
    return replace(Edge.of(model, {Hold.term: {name: Hold(rows) for name, rows in numbers.items()}}), made=made)


@torch.no_grad()
def measure_entropies(model: nn.Module, texts: Tensor) -> dict[str, Tensor]:
    """Return module → mean entropy [len(GRID), heads] over the last eighth of the texts, at every β of the grid."""
    found: dict[str, list[Tensor]] = {}
    sited = find_sites(model)

    def observe(name: str, request: Request) -> None:
        linear = not request.softcap and not request.mask.adds
        require(linear, "logits must be linear in the query to hold entropies", name)
        n = request.n_q
        rows = torch.linspace(n - n // 8, n - 1, min(ROWS, max(1, n // 8))).long()
        some = request.pick(rows.to(request.query.device))
        scaled = [some._replace(scale=some.scale * beta) for beta in GRID]
        curve = [row_stats(one).entropy.cpu().double().mean(-1).mean(0) for one in scaled]
        found.setdefault(name, []).append(torch.stack(curve))

    with apply(model, sited, Change(observer=observe, chosen=list(sited.all))):
        for ids in texts.split(1):
            model(input_ids=ids, use_cache=False)
    return {name: torch.stack(curves).mean(0) for name, curves in found.items()}


def _solve(curve: Tensor, target: Tensor) -> Tensor:
    """β at which each head's falling curve [grid, heads] meets its target [heads], by straight lines; ends are ends."""
    grid = torch.tensor(GRID, dtype=curve.dtype)
    above = (curve > target).sum(0).clamp(1, len(grid) - 1)  # the first place at or below the target
    high, low = curve.gather(0, above[None] - 1)[0], curve.gather(0, above[None])[0]
    share = ((high - target) / (high - low).clamp(min=1e-9)).clamp(0.0, 1.0)
    return (grid[above - 1] + share * (grid[above] - grid[above - 1])).float()


def _numbers(slope: Tensor, trusted: int) -> Tensor:
    changed = slope.abs() >= SMALLEST
    return torch.stack([slope * changed, math.log(trusted) * changed], -1)
