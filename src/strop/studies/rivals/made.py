"""What a rival has become once it has learned: how it is put on a model, and what that took."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Made:
    """`digest` tells it from every other; `ruler` is the name that RULER's scores are kept under, as evaluate's are.

    `numbers` were learned in `seconds`, `note` says more: the rate that was chosen, the validated loss.
    """

    digest: str
    put_on: Callable[[], AbstractContextManager[Any]]
    numbers: int = 0
    seconds: float = 0.0
    note: str = ""
    bakes: bool | None = None
