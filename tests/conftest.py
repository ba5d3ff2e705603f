"""Shared by all tests: one torch thread a process, and draws that are the same on every machine."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from browsing import CHROMIUM
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=10_000, deadline=None)
settings.load_profile(os.environ.get("STROP_HYPOTHESIS", "ci"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A Chromium, as `browsing.Visit` takes it."""
    if CHROMIUM is None:
        pytest.skip("needs a Chromium (Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def draw() -> torch.Generator:
    """A generator with a fixed seed."""
    return torch.Generator().manual_seed(0)
