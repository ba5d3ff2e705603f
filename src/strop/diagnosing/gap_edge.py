"""The edge that gap counting predicts without any answers (sharpness/gaps.py).

A head whose critical β grows with the input, while its β stays 1, is ever less sharp for what it has to part. Holding
it where it was at a length that the model masters:

    β = critical β at the long prompts / critical β at the short ones        (means over rows, of each head)

kept between 1/LIMIT and LIMIT. The form is `constant`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from strop.diagnosing.curves import average_heads
from strop.diagnosing.groups import Answered
from strop.edges.edge import Edge
from strop.edges.temperatures import Constant
from strop.patching.identity import heads_of

LIMIT = 2.0


def predict_beta(short: Answered, long: Answered) -> Tensor:
    """Return the predicted β of every head, [heads]."""
    before, after = (average_heads(group, "critical_beta") for group in (short, long))
    return torch.where(before > 0, after / before, 1.0).clamp(1 / LIMIT, LIMIT)


def predict_edge(model: nn.Module, short: Answered, long: Answered) -> Edge:
    """Return the edge of form constant that holds every head's critical β where it was at the short prompts."""
    counts = heads_of(model)
    betas = predict_beta(short, long).log().split(list(counts.values()))
    parts = {name: Constant(beta[:, None]) for name, beta in zip(counts, betas, strict=True)}
    return Edge.of(model, {"constant": parts})
