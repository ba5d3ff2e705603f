"""Muon in float32. torch's own multiplies in bfloat16, which processors without such products do many times slower.

    M ← 0.95·M + 0.05·G             the moving mean of gradients
    O ← NS((0.05·G + 0.95·M) / its norm)      five times X ← aX + (bA + cA²)X with A = XXᵀ: nearly orthogonal
    W ← W − rate·0.2·sqrt(max(rows, columns))·O

Steps have the size of AdamW's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
ROUNDS = 5
A, B, C = 3.4445, -4.775, 2.0315


class FloatMuon(torch.optim.Optimizer):
    """Muon for matrices, without weight decay; as `torch.optim.Muon(adjust_lr_fn="match_rms_adamw")`."""

    def __init__(self, matrices: list[torch.nn.Parameter], lr: float = 1e-3) -> None:
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Move every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    mean = self.state[matrix].setdefault("mean", torch.zeros_like(matrix))
                    mean.lerp_(matrix.grad, 1 - MOMENTUM)
                    move = orthogonalise(matrix.grad.lerp(mean, MOMENTUM))
                    matrix.sub_(move, alpha=group["lr"] * 0.2 * max(matrix.shape) ** 0.5)


def orthogonalise(matrix: Tensor) -> Tensor:
    """The matrix with all its singular values near 1."""
    wide = matrix.shape[0] <= matrix.shape[1]
    x: Tensor = matrix if wide else matrix.mT
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x if wide else x.mT
