"""Where a low-rank edit of the query starts: in directions that answers want and prose seldom has.

    G = ∂ task / ∂ W_query    over a few batches
    C = mean of x·xᵀ           over prose, x the projection's input; and a little of the identity
    down = the directions d of largest ‖G·d‖² / dᵀC·d

From drawn directions a calibration gains as much, and harms guarded tasks more (docs/LOG.md). The gradient alone points
where inputs are always large, in prose as in the task.
Each direction is as long as makes d·x as large over the task as the numbers of x are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from strop.calibration.objective import Batch
from strop.edges.apply import apply_parts
from strop.edges.query_edits import LowRankQuery, find_projection
from strop.patching.identity import heads_of
from strop.patching.placement import device_of

BATCHES = 6
"""Batches, spread over all of them, whose gradient is looked at."""

WINDOWS = 8
"""Windows of prose, the shortest ones, whose inputs are looked at."""

RIDGE = 0.1
"""Share of the mean variance that every direction has at least."""

MORE, TURNS = 6, 4
"""Directions and turns beyond what is asked for, in the search for the largest."""


def find_directions(model: nn.Module, batches: Sequence[Batch], windows: Sequence[Tensor], rank: int) -> list[Tensor]:
    """Return `rank` directions [rank, width] for each attention module, in their order."""
    modules, heads = dict(model.named_modules()), heads_of(model)
    wide = {name: _widen(modules[name], count) for name, count in heads.items()}
    layers = [find_projection(modules[name], count).layer for name, count in heads.items()]
    with torch.no_grad(), _watch(layers) as prose:
        for ids in sorted(windows, key=lambda ids: ids.shape[1])[:WINDOWS]:
            model(input_ids=ids, use_cache=False, logits_to_keep=1)
    with apply_parts(model, {LowRankQuery.term: wide}, by_queries=True), _watch(layers) as task:
        for batch in batches[:: -(-len(batches) // BATCHES)]:
            torch.autograd.backward(batch.loss(model))
    triples = zip(wide.values(), prose, task, strict=True)
    return [_choose(_gradient(part), before.mean(), now.mean(), rank) for part, before, now in triples]


def _widen(module: nn.Module, heads: int) -> LowRankQuery:
    """An edit of full rank that does nothing: the gradient of its `up` is that of the projection's weight."""
    part = LowRankQuery.start(module, heads, 1).to(device_of(module))
    width = part.down.shape[1]
    part.down = nn.Parameter(torch.eye(width, device=part.down.device), requires_grad=False)
    part.up = nn.Parameter(part.up.new_zeros(len(part.up), width))
    return part


def _gradient(part: LowRankQuery) -> Tensor:
    return torch.zeros_like(part.up) if part.up.grad is None else part.up.grad


class _Variance:
    """The mean of x·xᵀ over what a layer is given."""

    def __init__(self) -> None:
        self.total, self.count = torch.zeros(()), 0

    def add(self, layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        rows = given[0].detach().flatten(0, -2).float()
        self.total, self.count = rows.mT @ rows + self.total.to(rows.device), self.count + len(rows)

    def mean(self) -> Tensor:
        return self.total / self.count


@contextmanager
def _watch(layers: Sequence[nn.Module]) -> Iterator[list[_Variance]]:
    """Look at what the layers are given, for the length of the block."""
    found = [_Variance() for _ in layers]
    with ExitStack() as stack:
        for layer, variance in zip(layers, found, strict=True):
            stack.callback(layer.register_forward_pre_hook(variance.add).remove)
        yield found


def _choose(gradient: Tensor, prose: Tensor, task: Tensor, rank: int) -> Tensor:
    """The directions of largest gain for their variance in prose, each scaled by its variance in the task."""
    width = len(prose)
    variance = prose + RIDGE * prose.diagonal().mean() * torch.eye(width, device=prose.device)
    root = torch.linalg.cholesky(variance)
    gain = torch.linalg.solve_triangular(root, gradient.float().mT, upper=False).mT  # G·L⁻ᵀ
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = torch.svd_lowrank(gain, min(rank + MORE, *gain.shape), TURNS)[2][:, :rank]
    chosen: Tensor = torch.linalg.solve_triangular(root.mT, found, upper=True).mT
    usual = task.diagonal().mean().sqrt()
    scales: Tensor = usual / ((chosen @ task) * chosen).sum(-1, keepdim=True).sqrt().clamp(min=1e-12)
    return chosen * scales
