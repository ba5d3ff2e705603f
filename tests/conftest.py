"""Shared by all tests: one torch thread a process, and draws that are the same on every machine."""

import os

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=10_000, deadline=None)
settings.load_profile(os.environ.get("STROP_HYPOTHESIS", "ci"))


@pytest.fixture
def draw() -> torch.Generator:
    """A generator with a fixed seed."""
    return torch.Generator().manual_seed(0)
