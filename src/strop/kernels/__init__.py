"""Attention with a choice of normaliser: one door (`api`), several implementations that do not know each other."""

from strop.kernels.api import attention
from strop.kernels.dispatch import IMPLEMENTATIONS, attend
from strop.kernels.gaps import count_gaps
from strop.kernels.implementation import Implementation
from strop.kernels.mask import LazyMask, Mask
from strop.kernels.request import Request

__all__ = ["IMPLEMENTATIONS", "Implementation", "LazyMask", "Mask", "Request", "attend", "attention", "count_gaps"]


def __dir__() -> list[str]:
    return __all__
