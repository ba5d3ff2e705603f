"""What an implementation of attention is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from strop.kernels.request import Request
from strop.sharpness import RowStats


class Implementation(ABC):
    """One way to compute attention. All agree with `reference` to rounding error.

    A new one is one file, whose `implementation` is an instance of its class, and one line in `IMPLEMENTATIONS`.
    `find_obstacle` says what it cannot run, so that "auto" goes on to the next and a user who asked for it by name
    reads why.

    Examples:
        >>> import torch
        >>> from strop.kernels import IMPLEMENTATIONS, Mask, Request
        >>> from strop.normalisers import Sparsemax
        >>> q = torch.zeros(1, 2, 3, 4)
        >>> request = Request(q, q, q, Mask(), scale=0.5, normaliser=Sparsemax())
        >>> IMPLEMENTATIONS["fused_calls"].load().find_obstacle(request)
        'Sparsemax is not of the temperature family'
        >>> IMPLEMENTATIONS["reference"].load().find_obstacle(request) is None
        True
    """

    @abstractmethod
    def find_obstacle(self, request: Request) -> str | None:
        """Say why this way cannot run the request; None where it can."""

    @abstractmethod
    def run(self, request: Request) -> tuple[Tensor, RowStats | None]:
        """Return the output [*batch, n_q, d_v] and, where asked for, the statistics of every row."""
