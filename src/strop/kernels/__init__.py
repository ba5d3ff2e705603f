"""Attention with a choice of normaliser: one door (`api`), several implementations that do not know each other."""

from strop.kernels.api import IMPLEMENTATIONS, attention

__all__ = ["IMPLEMENTATIONS", "attention"]
