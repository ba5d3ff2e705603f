"""The guard: other tasks, whose right answers must not suffer while one task is learned.

    harm = mean over batches of max(0, loss now − loss of the untouched model)
    loss = mean −log p(answer token), or mean log(1 + e^−lead), where a wrong one that overtakes counts (objective.py)

Prose alone does not protect what prose seldom asks for, such as counting. What is gained on a guarded task is neither
sought nor set off against harm.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from strop.calibrate.objective import Batch

Group = Sequence[Batch]


class Guard:
    """Groups of batches, with the losses of the model as it was when this was made."""

    @torch.no_grad()
    def __init__(self, model: nn.Module, groups: Sequence[Group]) -> None:
        self.groups = [[(batch, float(batch.loss(model))) for batch in group] for group in groups]

    def of(self, model: nn.Module, index: int) -> Tensor:
        """The harm to one group, counted round; 0 where nothing is guarded."""
        if not self.groups:
            return torch.zeros(())
        group = self.groups[index % len(self.groups)]
        return torch.stack([(batch.loss(model) - before).clamp(min=0.0) for batch, before in group]).mean()

    @torch.no_grad()
    def worst(self, model: nn.Module) -> float:
        """The harm to the group that suffers most."""
        return max((float(self.of(model, i)) for i in range(len(self.groups))), default=0.0)
