"""Modules that draw from torch's global state when they are built, built from a `Generator` instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Generator

Made = TypeVar("Made")


def build_seeded(make: Callable[[], Made], generator: Generator) -> Made:
    """Call `make` with torch's global generator seeded from `generator`; the global state is put back."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()
