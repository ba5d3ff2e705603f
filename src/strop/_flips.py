"""The sign-flip test on changes: whether their sum is further from 0 than with signs that are drawn."""

from __future__ import annotations

from collections.abc import Sequence

EXACT_UP_TO = 16
"""Changes up to which every assignment of signs is counted."""

ROUNDS, DRAWS = 100, 1_000
"""Signs are drawn a round at a time: all at once would take gigabytes."""


def flip_p(given: Sequence[float]) -> float:
    """Return the two-sided p-value of the sign-flip test on changes, one for each thing independent of the others."""
    import torch

    changes = torch.tensor([change for change in given if change], dtype=torch.float64)
    if len(changes) == 0:
        return 1.0
    observed = abs(float(changes.sum())) - 1e-9  # sums of the same changes in another order are the same
    if len(changes) <= EXACT_UP_TO:
        bits = torch.arange(2 ** len(changes))[:, None] >> torch.arange(len(changes)) & 1
        return float((((2 * bits - 1).double() @ changes).abs() >= observed).double().mean())
    draw, extreme = torch.Generator().manual_seed(0), 0
    for _ in range(ROUNDS):
        signs = torch.randint(2, (DRAWS, len(changes)), generator=draw).double()
        extreme += int(((2 * signs - 1) @ changes).abs().ge(observed).sum())
    return (1 + extreme) / (1 + ROUNDS * DRAWS)
